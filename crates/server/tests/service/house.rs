//! A service with rules in a directory of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tollgate_core::{Clock, Moment, Span};
use tollgate_memory::ManualClock;
use tollgate_server::{Config, ListenerKind, Running, ServeError, TokenSources, start};
use tollgate_testbed::Journal;

/// A running service, its rules, and its time.
pub(crate) struct House<C = ManualClock> {
    pub(crate) running: Running,
    pub(crate) clock: Arc<C>,
    pub(crate) directory: TempDir,
}

// === impl House ===

impl House {
    /// A service with one rules file.
    pub(crate) async fn on(rules: &str) -> House {
        House::with(rules, |_| ()).await
    }

    /// The same, with other settings.
    pub(crate) async fn with(rules: &str, change: impl FnOnce(&mut Config)) -> House {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("rules.yaml");
        fs::write(&path, rules).unwrap();
        House::at(directory, path, change).await.unwrap()
    }

    /// A service with the rules at `path` in `directory`.
    pub(crate) async fn at(
        directory: TempDir,
        path: PathBuf,
        change: impl FnOnce(&mut Config),
    ) -> Result<House, ServeError> {
        // Noon, so that no window ends and no bucket refills soon.
        let noon = Moment::ZERO + Span::DAY.times(20_000) + Span::HOUR.times(12);
        House::start(directory, path, ManualClock::at(noon), change).await
    }
}

impl<C: Clock + 'static> House<C> {
    /// The same with a clock of its own.
    pub(crate) async fn start(
        directory: TempDir,
        path: PathBuf,
        clock: C,
        change: impl FnOnce(&mut Config),
    ) -> Result<House<C>, ServeError> {
        Journal::keep_enabled();
        let mut config = Config::new(vec![path]);
        for listen in &mut config.listen {
            listen.address = "127.0.0.1:0".parse().unwrap();
        }
        config.memory.max_keys = Some(10_000);
        change(&mut config);
        let clock = Arc::new(clock);
        let running = start(&config, Arc::clone(&clock)).await?;
        Ok(House {
            running,
            clock,
            directory,
        })
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.running.address(ListenerKind::Http).unwrap()
    }

    pub(crate) fn grpc(&self) -> SocketAddr {
        self.running.address(ListenerKind::Grpc).unwrap()
    }

    pub(crate) fn gateway(&self) -> SocketAddr {
        self.running.address(ListenerKind::Gateway).unwrap()
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        self.running.address(ListenerKind::Admin).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// Replaces a file at once, as editors do.
pub(crate) fn replace(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(beside, path).unwrap();
}

/// Has the admin listener demand a token, of a file beside the rules.
pub(crate) fn demand_token(config: &mut Config, token: &str) {
    let path = config.rules[0].with_file_name("tokens");
    fs::write(&path, token).unwrap();
    config.admin = TokenSources {
        file: Some(path),
        env: None,
    };
}
