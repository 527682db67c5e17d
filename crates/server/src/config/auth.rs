//! `auth`: who asks `/v1/auth`, and how the original request is identified and answered.

use std::path::Path;

use tollgate_core::DOMAIN_BYTES_MAX;
use tollgate_http::{
    AddressSource, Classifier, IdentitySettings, InvalidSetting, InvalidSettings, OriginalSource,
    Responder, ResponseSettings,
};
use tollgate_rules::Settings;

/// The proxies that are trusted unless the settings name others: those on this host.
const THIS_HOST: [&str; 3] = ["127.0.0.0/8", "::1", "unix"];

/// The settings of `/v1/auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// `domain`: whose rules apply.
    pub domain: String,
    /// `source`: the headers that carry the original request; all others are ignored.
    pub source: OriginalSource,
    /// `identity`: its descriptors. `client_address.source` is needed; without trusted proxies,
    /// those on this host are trusted.
    pub identity: IdentitySettings,
    /// `responses`: what is answered to a denied request.
    pub responses: ResponseSettings,
}

// === impl Auth ===

impl Auth {
    /// Reads the map `auth`, in which paths are relative to `directory`; `None` if it is missing,
    /// or lacks what it needs.
    pub(super) fn take(top: &Settings<'_>, directory: &Path) -> Option<Auth> {
        if !top.has("auth") {
            return None;
        }
        top.map("auth", |map| {
            let (identity, responses) = (map.value("identity"), map.value("responses"));
            // What is wrong in itself has been reported, and has no more errors.
            let is_read = [
                identity.is_some() || !map.has("identity"),
                responses.is_some() || !map.has("responses"),
            ];
            let mut auth = Auth {
                domain: take_domain(map),
                source: take_source(map),
                identity: identity.unwrap_or_default(),
                responses: responses.unwrap_or_default(),
            };
            auth.identity.resolve(directory);
            let checked = [
                ("identity", auth.classifier().map(drop)),
                ("responses", auth.responder().map(drop)),
            ];
            for ((key, checked), _) in checked.into_iter().zip(is_read).filter(|one| one.1) {
                for invalid in checked.err().unwrap_or_default() {
                    let at = invalid.at.clone();
                    let invalid = invalid.below(key).below("auth");
                    let message = format!("`{}`: {}", invalid.at, invalid.problem);
                    map.report_error_at(key, &at, message, &invalid.instead);
                }
            }
            Some(auth)
        })
    }

    /// What describes requests.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn classifier(&self) -> Result<Classifier, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let mut identity = self.identity.clone();
        let address = &mut identity.client_address;
        let source = "client_address.source";
        let header = "write the header in which your proxy names the client, such as \
            `source: x-real-ip` or `source: x-forwarded-for`";
        let mut wrong = |at: &str, problem: &str, instead: &str| {
            errors.push(InvalidSetting::new(at, problem, instead));
        };
        match (address.source, address.trusted_hops) {
            (AddressSource::Peer, _) => {
                let problem = "all requests come from the proxy, so the peer is not the client";
                wrong(source, problem, header);
            }
            (AddressSource::ProxyProtocol, _) => {
                wrong(source, "this listener reads no PROXY protocol", header);
            }
            (_, Some(0)) => wrong(
                "client_address.trusted_hops",
                "0 hops, and all requests come through the proxy",
                "write 1, or remove it and set `trusted_proxies`",
            ),
            (_, None) if address.trusted_proxies.is_empty() => {
                address.trusted_proxies = THIS_HOST.map(str::to_owned).to_vec();
            }
            _ => {}
        }
        match errors.take(Classifier::new(&identity)) {
            Some(classifier) if errors.is_empty() => Ok(classifier),
            _ => Err(errors),
        }
    }

    /// What makes responses.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn responder(&self) -> Result<Responder, InvalidSettings> {
        Responder::new(&self.responses)
    }
}

fn take_domain(map: &Settings<'_>) -> String {
    let help = "write `domain: NAME`, with the domain of a rules file";
    if !map.has("domain") {
        let message = "nothing says whose rules apply".to_owned();
        map.report_error("domain", message, help);
    }
    let domain = map.text("domain");
    let bytes = domain.as_ref().map_or(1, String::len);
    if !(1..=DOMAIN_BYTES_MAX).contains(&bytes) {
        let message = format!("`domain` has {bytes} bytes, and can have 1 to {DOMAIN_BYTES_MAX}");
        map.report_error("domain", message, help);
    }
    domain.unwrap_or_default()
}

fn take_source(map: &Settings<'_>) -> OriginalSource {
    if !map.has("source") {
        let message = "nothing says which headers name the original request".to_owned();
        let help = "write `source: x-original-uri` for nginx, `source: x-forwarded-uri` for \
            Traefik and Caddy";
        map.report_error("source", message, help);
    }
    // Without one, the settings have an error.
    map.value("source").unwrap_or(OriginalSource::XOriginalUri)
}
