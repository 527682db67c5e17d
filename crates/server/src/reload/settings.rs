//! Settings that change while the service runs: none is in effect before a restart, which is told.

use std::path::Path;

use tollgate_engine::Why;
use tracing::{info, warn};

use crate::config::Config;

/// Knows what the settings' file said the last time.
pub(super) struct SettingsFile {
    last: Found,
}

/// What a file says that the service did not start with.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Nothing.
    Same,
    /// Other settings than those in effect.
    Changed(Box<Config>),
    /// It cannot be used.
    Unusable(String),
}

// === impl SettingsFile ===

impl SettingsFile {
    /// The file as the service read it when it started.
    pub(super) fn new() -> SettingsFile {
        SettingsFile { last: Found::Same }
    }

    /// Reads `path` and tells what a restart would change in `in_effect`: if it is not what was
    /// told already, or if it is asked for.
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
            Found::Same => info!(%file, "the settings are again those that are in effect"),
            Found::Changed(config) => {
                let settings = in_effect.differences(config).join(", ");
                warn!(%file, settings, "settings changed; restart the service to apply them");
            }
            Found::Unusable(error) => {
                warn!(%file, error, "the settings cannot be used; a restart would fail");
            }
        }
        self.last = found;
    }
}
