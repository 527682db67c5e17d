//! Logs settings that change while the service runs; they take effect after a restart.

use std::path::Path;

use tollgate_engine::Why;
use tracing::{info, warn};

use crate::config::Config;

/// Remembers the last state of the settings file.
pub(super) struct SettingsFile {
    last: Found,
}

/// How the file differs from the settings in effect.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// It does not differ.
    Same,
    /// It has other settings.
    Changed(Box<Config>),
    /// It cannot be used.
    Unusable(String),
}

// === impl SettingsFile ===

impl SettingsFile {
    /// The state of the file when the service started.
    pub(super) fn new() -> SettingsFile {
        SettingsFile { last: Found::Same }
    }

    /// Reads `path` and logs what a restart would change in `in_effect`, if that is new or if an
    /// operator has asked for a reload.
    pub(super) fn check(&mut self, path: &Path, in_effect: &Config, why: Why) {
        let found = match Config::read(path) {
            Ok(config) if config == *in_effect => Found::Same,
            Ok(config) => Found::Changed(Box::new(config)),
            Err(error) => Found::Unusable(error.to_string()),
        };
        if found == self.last && (why == Why::Noticed || found == Found::Same) {
            return;
        }
        let file = path.display();
        match &found {
            Found::Same => info!(%file, "the settings file again has the settings in effect"),
            Found::Changed(config) => {
                let settings = in_effect.differences(config).join(", ");
                warn!(%file, settings, "settings changed; restart the service to apply them");
            }
            Found::Unusable(error) => {
                warn!(%file, error, "the settings are invalid; fix them, or a restart will fail");
            }
        }
        self.last = found;
    }
}
