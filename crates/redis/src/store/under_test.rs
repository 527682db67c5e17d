//! A store in a test's own time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Redis;
use crate::config::{Config, InvalidConfig};
use crate::script::{Caller, ClockOf, Scripts};

impl Redis {
    /// A store whose time the test tells.
    pub(crate) fn under_test(config: &Config) -> Result<Redis, InvalidConfig> {
        let now = Arc::new(AtomicU64::new(0));
        let caller = Caller {
            prefix: config.prefix.clone(),
            now: Some(Arc::clone(&now)),
            ..Caller::default()
        };
        let mut redis = Redis::with(config, Scripts::new(ClockOf::Caller), &caller, None)?;
        redis.now = Some(now);
        // The test says when leases are looked after.
        redis.keeper.abort();
        Ok(redis)
    }

    /// Whether the test says what time it is.
    pub(crate) const fn is_under_test(&self) -> bool {
        self.now.is_some()
    }

    /// The moment that the scripts take for now.
    pub(crate) fn set_now(&self, micros: u64) {
        let now = self.now.as_ref().expect("built by `under_test`");
        now.store(micros, Ordering::SeqCst);
    }
}
