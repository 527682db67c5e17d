//! Why Redis cannot be reached, for whoever has to mend it.

use std::fmt;
use std::sync::Mutex;

use crate::sharded::locked;
use crate::store::Redis;

/// The latest reason why a connection could not be opened, until one could.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<String>>);

// === impl Trouble ===

impl Trouble {
    pub(crate) fn told(&self, reason: &dyn fmt::Display) {
        self.set(Some(reason.to_string()));
    }

    pub(crate) fn over(&self) {
        self.set(None);
    }

    fn set(&self, reason: Option<String>) {
        *locked(&self.0) = reason;
    }

    fn get(&self) -> Option<String> {
        let reason = locked(&self.0);
        reason.clone()
    }
}

impl Redis {
    /// Why the latest connection could not be opened, in the words of the system or of Redis:
    /// `WRONGPASS …`. None since one could; a connection that is open and silent gives no reason.
    pub fn trouble(&self) -> Option<String> {
        self.stats().trouble.get()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use tokio::time::{Instant, sleep};
    use tollgate_core::{Charge, Cost, Key, Limit, Span};
    use tollgate_testbed as testbed;

    use super::*;
    use crate::config::{Config, Secret};

    #[tokio::test]
    async fn servers_that_were_named_as_what_they_are_not_are_told() {
        let plain = testbed::Redis::start();
        let reason = trouble(&Config::cluster([plain.address()])).await;
        assert!(reason.contains("cluster support disabled"), "{reason}");

        let setup = testbed::Setup::with(&["--cluster-enabled", "yes"]);
        let node = testbed::Redis::start_with(&setup);
        let reason = trouble(&Config::cluster([node.address()])).await;
        assert!(reason.contains("no slot"), "{reason}");
        let redis = Redis::connect(&Config::single(node.address())).unwrap();
        let limit = Limit::fixed_window(1, Span::DAY).unwrap();
        let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
        let latest = Instant::now() + Duration::from_secs(20);
        let why = loop {
            let error = redis.decide(&[charge]).await.unwrap_err();
            if redis.trouble().is_some() {
                break std::error::Error::source(&error).unwrap().to_string();
            }
            assert!(Instant::now() < latest, "{error}");
        };
        assert_eq!(why, "it is one node of a Cluster: name it in `cluster`");
        assert_eq!(redis.trouble(), Some(why));
        assert!(!redis.is_up());
    }

    /// What an unsuccessful connection tells in the end.
    async fn trouble(config: &Config) -> String {
        let redis = Redis::connect(config).unwrap();
        let latest = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(reason) = redis.trouble() {
                assert!(!redis.is_up());
                return reason;
            }
            assert!(Instant::now() < latest, "no reason came");
            sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn the_reason_is_told_and_no_password() {
        let server = testbed::Redis::start();
        let config = Config {
            password: Some(Secret::new("hunter2")),
            ..Config::single(server.address())
        };
        let reason = trouble(&config).await;
        assert!(reason.contains("AUTH"), "{reason}");
        assert!(!reason.contains("hunter2"), "{reason}");
        server.kill();
        let reason = trouble(&config).await;
        assert!(reason.contains("refused"), "{reason}");
    }
}
