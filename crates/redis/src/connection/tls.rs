//! TLS: the trusted authorities, and the client's certificate.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::config::{InvalidConfig, Tls};

/// The TLS connector, and the name in the server's certificate if it is not the host's.
pub(super) type Encryption = (TlsConnector, Option<ServerName<'static>>);

/// Why a file of certificates or keys cannot be used.
type Unusable = Box<dyn std::error::Error + Send + Sync>;

// === impl Tls ===

impl Tls {
    /// Whether a store could use these settings: reads the files and the name, and connects to
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig::Authorities`], [`InvalidConfig::Identity`] and
    /// [`InvalidConfig::ServerName`].
    pub fn check(&self) -> Result<(), InvalidConfig> {
        encryption(self).map(drop)
    }
}

pub(super) fn encryption(tls: &Tls) -> Result<Encryption, InvalidConfig> {
    let name = tls.server_name.as_ref().map(|name| {
        ServerName::try_from(name.clone()).map_err(|_| InvalidConfig::ServerName(name.clone()))
    });
    let client = client(tls)?;
    Ok((TlsConnector::from(Arc::new(client)), name.transpose()?))
}

/// Builds the TLS configuration: the configured authorities or the public ones, and the client's
/// certificate if there is one.
fn client(tls: &Tls) -> Result<ClientConfig, InvalidConfig> {
    let roots = match tls.authorities.as_deref() {
        None => RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(path) => authorities(path).map_err(|source| InvalidConfig::Authorities {
            path: path.to_owned(),
            source,
        })?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has both versions of TLS")
        .with_root_certificates(roots);
    let Some(identity) = &tls.identity else {
        return Ok(client.with_no_client_auth());
    };
    let unusable = |path: &Path, source: Unusable| InvalidConfig::Identity {
        path: path.to_owned(),
        source,
    };
    let [certificate, key] = [&*identity.certificate, &*identity.key];
    let chain = certificates(certificate).map_err(|source| unusable(certificate, source))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, error.into()))?;
    client
        .with_client_auth_cert(chain, secret)
        .map_err(|error| unusable(key, error.into()))
}

fn authorities(path: &Path) -> Result<RootCertStore, Unusable> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// At least one certificate.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let all = CertificateDer::pem_file_iter(path)?;
    let all: Vec<_> = all.collect::<Result<_, _>>()?;
    if all.is_empty() {
        return Err("there is none in it".into());
    }
    Ok(all)
}
