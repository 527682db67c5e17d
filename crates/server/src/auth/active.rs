//! What decides for `/v1/auth` now. The file with the keys of tokens is read again when it changes.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tollgate_core::Clock;
use tollgate_engine::Why;
use tollgate_gateway::hash_files;
use tollgate_http::InvalidSettings;
use tollgate_listen::Proxies;
use tracing::{error, info};

use super::ForwardAuth;
use crate::config::Auth;

/// What decides for `/v1/auth`, under the keys in effect. A request keeps those under which it
/// came.
pub(crate) struct ActiveAuth {
    settings: Auth,
    clock: Arc<dyn Clock>,
    in_effect: ArcSwap<ForwardAuth>,
    /// The hash of the file of keys when it was used last, or could not be.
    tried: Mutex<u64>,
}

// === impl ActiveAuth ===

impl ActiveAuth {
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn new(
        settings: &Auth,
        clock: Arc<dyn Clock>,
    ) -> Result<ActiveAuth, InvalidSettings> {
        // Before it is used: what changes in between is found by the next comparison.
        let tried = hash_files(settings.identity.keys_file().into_iter());
        let in_effect = ForwardAuth::new(settings, Arc::clone(&clock))?;
        Ok(ActiveAuth {
            settings: settings.clone(),
            clock,
            in_effect: ArcSwap::from_pointee(in_effect),
            tried: Mutex::new(tried),
        })
    }

    /// What decides for a request that comes now.
    pub(crate) fn load(&self) -> Arc<ForwardAuth> {
        self.in_effect.load_full()
    }

    /// The file of keys, if there is one.
    pub(crate) fn keys_file(&self) -> Option<&PathBuf> {
        self.settings.identity.keys_file()
    }

    /// Uses the keys of a file that has changed. If they cannot be used, the previous ones stay in
    /// effect; the log says so once, and again if an operator asks.
    pub(crate) fn reload(&self, why: Why) {
        let Some(file) = self.keys_file() else {
            return;
        };
        let found = hash_files([file].into_iter());
        let mut tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        if *tried == found && why == Why::Noticed {
            return;
        }
        *tried = found;
        let file = file.display();
        match ForwardAuth::new(&self.settings, Arc::clone(&self.clock)) {
            Ok(next) => {
                self.in_effect.store(Arc::new(next));
                info!(%file, "the keys of tokens for /v1/auth are in effect");
            }
            Err(invalid) => {
                let error = invalid.below("auth").to_string();
                error!(%file, error, "the previous keys of tokens for /v1/auth stay in effect");
            }
        }
    }
}

impl Proxies for ActiveAuth {
    /// Those that the settings list. `trusted_hops` trusts every peer, and names none.
    fn is_trusted(&self, address: IpAddr) -> bool {
        self.in_effect.load().lists_proxy(address)
    }
}

impl fmt::Debug for ActiveAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ActiveAuth");
        shown
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
