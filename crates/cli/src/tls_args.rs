//! Options that say how to speak TLS to a running service.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use tollgate_listen::ClientTlsFiles;

use crate::service_url::ServiceUrl;

/// Which authority signed the service's certificate, and our own certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct TlsArgs {
    /// For https: the certificates (PEM) of the authorities that are trusted to sign the service's
    /// certificate. Default: the public authorities of Mozilla's list.
    #[arg(long, value_name = "PATH")]
    ca: Option<PathBuf>,
    /// The client certificate (PEM), if the service requires one.
    #[arg(long, value_name = "PATH", requires = "key")]
    cert: Option<PathBuf>,
    /// The private key (PEM) of the client certificate.
    #[arg(long, value_name = "PATH", requires = "cert")]
    key: Option<PathBuf>,
}

// === impl TlsArgs ===

impl TlsArgs {
    /// How to speak TLS, if the address has https.
    ///
    /// # Errors
    ///
    /// What is wrong with the files, or that the address has http.
    pub(crate) fn config(&self, url: &ServiceUrl) -> Result<Option<Arc<ClientConfig>>, String> {
        if !url.is_encrypted() {
            return match (&self.ca, &self.cert) {
                (None, None) => Ok(None),
                _ => Err(format!(
                    "certificates are for https, and the address is {url}"
                )),
            };
        }
        let files = ClientTlsFiles {
            ca: self.ca.clone(),
            identity: self.cert.clone().zip(self.key.clone()),
        };
        let config = files.read().map_err(|invalid| {
            let invalid: Vec<String> = invalid.iter().map(ToString::to_string).collect();
            invalid.join("\n")
        })?;
        Ok(Some(Arc::new(config)))
    }
}
