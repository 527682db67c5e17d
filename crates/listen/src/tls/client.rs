//! The client's side of TLS: which servers it trusts, and who it is, read from files.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::credentials::{Reading, authorities, certificates, certify, private_key};
use super::invalid::{InvalidTls, TlsFile};

/// Whom a client trusts, and its certificate, as PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// The authorities of servers. Without them, the public ones of Mozilla's list.
    pub ca: Option<PathBuf>,
    /// The client's certificate, and those that lead from it to an authority; and its private key,
    /// without a password.
    pub identity: Option<(PathBuf, PathBuf)>,
}

// === impl ClientTlsFiles ===

impl ClientTlsFiles {
    /// Reads the files, and checks that they fit together. Blocks.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them.
    pub fn read(&self) -> Result<ClientConfig, Vec<InvalidTls>> {
        let provider = Arc::new(ring::default_provider());
        let mut reading = Reading::default();
        let roots = match &self.ca {
            None => Some(RootCertStore::from_iter(
                webpki_roots::TLS_SERVER_ROOTS.iter().cloned(),
            )),
            Some(path) => reading.load(TlsFile::Ca, path, authorities),
        };
        let identity = self.identity.as_ref().and_then(|(cert, key_path)| {
            let chain = reading.load(TlsFile::Cert, cert, certificates);
            let key = reading.load(TlsFile::Key, key_path, private_key);
            let ((chain, _), key) = chain.zip(key)?;
            // Whether they belong together; the library takes them apart.
            let certified = certify(chain.clone(), key.clone_key(), &provider);
            reading.keep(TlsFile::Key, key_path, certified)?;
            Some((chain, key))
        });
        let invalid = reading.into_invalid();
        let (Some(roots), true) = (roots, invalid.is_empty()) else {
            return Err(invalid);
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has ciphers for both versions of TLS")
            .with_root_certificates(roots);
        Ok(match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .expect("they were checked together"),
        })
    }
}
