//! The certificates of the listeners, read again when their files change.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_core::{Clock, Span, Timeline};
use tollgate_engine::Why;
use tollgate_listen::{Credentials, InvalidTls, Tls, TlsFiles, Validity};
use tracing::{error, info, warn};

use crate::config::{Config, Listen, ListenerKind};
use crate::metrics::Metrics;
use crate::setting_warning::SettingWarning;

/// Those of all listeners with TLS.
pub(crate) struct Certificates {
    all: Vec<Certificate>,
    /// How many listeners there are, with TLS or without.
    listeners: usize,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

/// That of one listener.
struct Certificate {
    /// Which of the listeners it belongs to.
    index: usize,
    kind: ListenerKind,
    files: TlsFiles,
    tls: Tls,
    /// The digest of the files in effect.
    digest: u64,
    validity: Validity,
    standing: Standing,
    /// What is wrong with the files now, if they are not in effect.
    invalid: Option<String>,
}

/// How a certificate's validity relates to the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Early,
    Valid,
    Expired,
}

// === impl Certificates ===

impl Certificates {
    /// Reads the certificates of these listeners for the first time.
    ///
    /// # Errors
    ///
    /// The first file that cannot be used, and its listener.
    pub(crate) fn load(
        listen: &[Listen],
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Certificates, (ListenerKind, InvalidTls)> {
        let mut certificates = Certificates {
            all: Vec::new(),
            listeners: listen.len(),
            clock,
            metrics,
        };
        for (index, listen) in listen.iter().enumerate() {
            let (kind, Some(files)) = (listen.kind, &listen.tls) else {
                continue;
            };
            match files.read() {
                Ok(credentials) => certificates.add((index, kind), files, &credentials),
                Err(invalid) => {
                    let first = invalid.into_iter().next();
                    return Err((kind, first.expect("an error has a reason")));
                }
            }
        }
        Ok(certificates)
    }

    /// Adds the certificate of a listener, and records when it expires.
    fn add(
        &mut self,
        (index, kind): (usize, ListenerKind),
        files: &TlsFiles,
        credentials: &Credentials,
    ) {
        let validity = credentials.validity();
        let certificate = Certificate {
            index,
            kind,
            files: files.clone(),
            tls: Tls::new(kind.protocol(), credentials),
            digest: credentials.digest(),
            validity,
            standing: Standing::at(self.now(), validity),
            invalid: None,
        };
        self.metrics
            .certificate_loaded(kind.name(), validity.not_after);
        certificate.log_standing();
        self.all.push(certificate);
    }

    /// The handshake of each listener, in the order of the settings; `None` for plain TCP.
    pub(crate) fn handshakes(&self) -> Vec<Option<Tls>> {
        let mut handshakes = vec![None; self.listeners];
        for certificate in &self.all {
            handshakes[certificate.index] = Some(certificate.tls.clone());
        }
        handshakes
    }

    /// All files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.all
            .iter()
            .flat_map(|certificate| certificate.files.paths())
    }

    /// Reads all files again, and uses those that changed and fit together; the others keep what is
    /// in effect. Logs what is new, or everything that is wrong if an operator asked for it.
    pub(crate) fn reload(&mut self, why: Why) {
        let now = self.now();
        for certificate in &mut self.all {
            match certificate.files.read() {
                Ok(credentials) => certificate.accept(&credentials, now, why, &self.metrics),
                Err(invalid) => certificate.reject(&invalid, now, why, &self.metrics),
            }
        }
    }

    /// Seconds since 1970.
    fn now(&self) -> u64 {
        seconds(&*self.clock)
    }
}

// === impl Certificate ===

impl Certificate {
    fn accept(&mut self, credentials: &Credentials, now: u64, why: Why, metrics: &Metrics) {
        let was_invalid = self.invalid.take().is_some();
        let is_new = was_invalid || self.digest != credentials.digest();
        if is_new {
            self.tls.replace(credentials);
            self.digest = credentials.digest();
            self.validity = credentials.validity();
            metrics.certificate_loaded(self.kind.name(), self.validity.not_after);
            info!(listener = self.kind.name(), "certificate in effect");
        }
        self.check_standing(now, is_new || why == Why::Ordered);
    }

    fn reject(&mut self, invalid: &[InvalidTls], now: u64, why: Why, metrics: &Metrics) {
        self.check_standing(now, why == Why::Ordered);
        let lines: Vec<String> = invalid.iter().map(ToString::to_string).collect();
        let text = lines.join("; ");
        if why == Why::Noticed && self.invalid.as_deref() == Some(&*text) {
            return;
        }
        metrics.certificate_rejected(self.kind.name());
        for error in &lines {
            error!(
                listener = self.kind.name(),
                error, "the certificate cannot be used; the previous one stays in effect"
            );
        }
        self.invalid = Some(text);
    }

    /// Looks at the validity of the certificate in effect, whatever its file has become. Logs how
    /// it stands if that has changed, or is due anyway.
    fn check_standing(&mut self, now: u64, is_due: bool) {
        let standing = Standing::at(now, self.validity);
        let has_changed = standing != self.standing;
        self.standing = standing;
        if is_due || has_changed {
            self.log_standing();
        }
    }

    fn log_standing(&self) {
        let (listener, file) = (self.kind.name(), self.files.cert.display());
        if let Some((_, what, help)) = self.standing.flaw() {
            warn!(listener, %file, "the certificate {what}: clients reject it; {help}");
        }
    }
}

// === impl Standing ===

impl Standing {
    fn at(now: u64, validity: Validity) -> Standing {
        if now < validity.not_before {
            Standing::Early
        } else if now > validity.not_after {
            Standing::Expired
        } else {
            Standing::Valid
        }
    }

    /// The code of a warning, why clients reject the certificate, and what to do.
    const fn flaw(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Standing::Valid => None,
            Standing::Early => Some(("early-certificate", "is not valid yet", "check the clock")),
            Standing::Expired => Some(("expired-certificate", "has expired", "replace its file")),
        }
    }
}

/// The certificates of listeners that have expired or are not valid yet: a warning each. Reads
/// their files; what is wrong with these is not looked at.
pub fn find_untimely_certificates(config: &Config, clock: &dyn Clock) -> Vec<SettingWarning> {
    let now = seconds(clock);
    let found = config.listen.iter().filter_map(|listen| {
        let validity = listen.tls.as_ref()?.read().ok()?.validity();
        let (code, what, help) = Standing::at(now, validity).flaw()?;
        Some(SettingWarning {
            path: format!("listen.{}.tls.cert", listen.kind.name()),
            code,
            message: format!("the certificate {what}: clients reject it"),
            help: help.to_owned(),
        })
    });
    found.collect()
}

/// Seconds since 1970.
fn seconds(clock: &dyn Clock) -> u64 {
    clock.on(Timeline::Utc).as_nanos() / Span::SECOND.as_nanos()
}

#[cfg(test)]
mod tests;
