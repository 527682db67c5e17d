//! Settings that change while the service runs: those of the gateway take effect, others are logged
//! and take effect after a restart.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use tollgate_engine::{Why, log_diagnostics};
use tollgate_gateway::{Gateway, GatewaySettings};
use tollgate_http::InvalidSettings;
use tollgate_rules::Diagnostic;
use tracing::{error, info, warn};

use crate::config::{Config, ConfigError};
use crate::metrics::Metrics;

/// Remembers the last state of the settings file.
pub(super) struct SettingsFile {
    last: Found,
    metrics: Arc<Metrics>,
}

/// How the file differs from the settings in effect.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It does not differ.
    Same,
    /// It has other settings.
    Changed(Box<Config>),
    /// It cannot be used.
    Unusable(Unusable),
}

/// What is wrong with the file, or with the files that it names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Unusable {
    /// What has a place in the file.
    diagnostics: Vec<Diagnostic>,
    /// All else.
    error: Option<String>,
}

// === impl SettingsFile ===

impl SettingsFile {
    /// The state of the file when the service started.
    pub(super) const fn new(metrics: Arc<Metrics>) -> SettingsFile {
        SettingsFile {
            last: Found::Same,
            metrics,
        }
    }

    /// Reads `path`, applies the settings of the gateway, and logs what a restart would change in
    /// `in_effect`, if that is new or if an operator has asked for a reload. Returns whether other
    /// settings of the gateway are in effect now.
    pub(super) fn check(
        &mut self,
        path: &Path,
        in_effect: &mut Config,
        gateway: Option<&Gateway>,
        why: Why,
    ) -> bool {
        let mut has_replaced = false;
        let read = in_effect.read_again(path).map_err(Unusable::from);
        let applied = read.and_then(|config| {
            let applied = apply(gateway, &config, in_effect);
            let applied = applied.map_err(|invalid| Unusable::of(&invalid.below("gateway")));
            has_replaced = applied?;
            Ok(config)
        });
        let applied = applied.map_err(|unusable| read_files_again(gateway, in_effect, unusable));
        let found = match applied {
            Ok(config) if config == *in_effect => Found::Same,
            Ok(config) => Found::Changed(Box::new(config)),
            Err(unusable) => Found::Unusable(unusable),
        };
        if found == self.last && (why == Why::Noticed || found == Found::Same) {
            return has_replaced;
        }
        let is_unusable = matches!(found, Found::Unusable(_));
        self.metrics.settings_read(is_unusable);
        if let (Some(gateway), true) = (gateway, is_unusable)
            && found != self.last
        {
            gateway.count_failed_reload();
        }
        let file = path.display();
        match &found {
            Found::Same => info!(%file, "the settings file again has the settings in effect"),
            Found::Changed(config) => {
                let settings = in_effect.differences(config).join(", ");
                warn!(%file, settings, "settings changed; restart the service to apply them");
            }
            Found::Unusable(Unusable { diagnostics, error }) => {
                log_diagnostics(diagnostics);
                let what = "the settings are invalid, and the former ones stay in effect; fix \
                            them, or a restart will fail";
                error!(%file, error, "{what}");
            }
        }
        self.last = found;
        has_replaced
    }
}

// === impl Unusable ===

impl Unusable {
    /// What is wrong without a place in the file, and its cause.
    fn of(error: &dyn Error) -> Unusable {
        let error = match error.source() {
            None => error.to_string(),
            Some(cause) => format!("{error}: {cause}"),
        };
        Unusable {
            error: Some(error),
            ..Unusable::default()
        }
    }
}

impl From<ConfigError> for Unusable {
    fn from(error: ConfigError) -> Unusable {
        match error {
            ConfigError::Invalid(diagnostics) => Unusable {
                diagnostics,
                error: None,
            },
            ConfigError::Unreadable(_) => Unusable::of(&error),
        }
    }
}

/// Reads the files again that the settings in effect name, whatever is wrong with new settings.
/// Returns what is wrong with both.
fn read_files_again(
    gateway: Option<&Gateway>,
    in_effect: &mut Config,
    unusable: Unusable,
) -> Unusable {
    let same = in_effect.clone();
    let Err(invalid) = apply(gateway, &same, in_effect) else {
        return unusable;
    };
    let of_files = invalid.below("gateway").to_string();
    let error = match unusable.error {
        None => of_files,
        Some(error) if error.contains(&of_files) => error,
        Some(error) => format!("{error}; {of_files}"),
    };
    Unusable {
        error: Some(error),
        ..unusable
    }
}

/// Applies what a file has for the gateway, and what the files have that it names, but for the
/// paths of the access log and of the lists, which stay what they are. Returns whether anything of
/// that is new.
fn apply(
    gateway: Option<&Gateway>,
    found: &Config,
    in_effect: &mut Config,
) -> Result<bool, InvalidSettings> {
    let (Some(gateway), Some(found)) = (gateway, &found.gateway) else {
        return Ok(false);
    };
    let former = in_effect.gateway.clone().unwrap_or_default();
    let next = GatewaySettings {
        access_log: former.access_log.clone(),
        lists: former.lists.clone(),
        ..found.clone()
    };
    let is_new = next != former || gateway.has_changed_files(&next);
    if is_new {
        let candidate = Config {
            gateway: Some(next.clone()),
            ..in_effect.clone()
        };
        candidate.check_reservable()?;
        gateway.replace(&next)?;
        let (routes, upstreams) = (next.routes.len(), next.upstreams.len());
        info!(routes, upstreams, "the gateway's settings are in effect");
        in_effect.gateway = Some(next);
    }
    Ok(is_new)
}
