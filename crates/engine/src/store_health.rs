//! Logs when a shared store becomes unavailable, and when it is available again.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::{SharedStore, StoreEvent};
use tracing::{info, warn};

use crate::engine::Engine;

/// How often stores are checked.
const CHECK_EVERY: Duration = Duration::from_millis(250);
/// After how many checks a store that was never available is logged as unavailable.
const CHECKS_TO_CONNECT: u32 = 4;

/// What was last logged about a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Nothing yet; it was checked so many times.
    Unknown(u32),
    Up,
    Down,
}

/// Checks every shared store of `engine` until `stop` is ready, and logs changes. A line for each
/// decision without the store would be too many.
pub async fn watch_stores(engine: Arc<Engine>, stop: impl Future<Output = ()>) {
    let stores = engine.stores();
    let mut logged = vec![Health::Unknown(0); stores.shared_stores().count()];
    if logged.is_empty() {
        return;
    }
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            () = sleep(CHECK_EVERY) => {}
            () = &mut stop => return,
        }
        for ((store, fallback), logged) in stores.shared_stores().zip(&mut logged) {
            let shared = fallback.shared();
            let kind = shared.kind();
            let events = shared.take_events();
            events.iter().for_each(|event| log(store, kind, event));
            let next = logged.after(shared.is_up());
            match (*logged, next) {
                (Health::Unknown(_), Health::Up) => info!(store, "{kind} is connected"),
                (Health::Down, Health::Up) => info!(store, "{kind} is available again"),
                (Health::Unknown(_) | Health::Up, Health::Down) => {
                    let reason = shared.trouble();
                    let reason = reason.as_deref().unwrap_or("it does not answer");
                    warn!(
                        store,
                        reason,
                        "{kind} is unavailable; each limit does what its `on_store_error` says"
                    );
                }
                _ => {}
            }
            *logged = next;
        }
    }
}

/// One line for each event; the store bounds those that repeat.
fn log(store: &str, kind: &str, event: &StoreEvent) {
    match event {
        StoreEvent::ErrorReplies {
            node,
            code,
            text,
            count,
        } => warn!(
            store,
            node, code, text, count, "{kind} has replied with errors"
        ),
        StoreEvent::PrimaryChanged { from, to } => {
            warn!(
                store,
                from, to, "the sentinels name another primary; switching to it"
            );
        }
        _ => {}
    }
}

// === impl Health ===

impl Health {
    fn after(self, is_up: bool) -> Health {
        match self {
            _ if is_up => Health::Up,
            Health::Unknown(checks) if checks + 1 < CHECKS_TO_CONNECT => {
                Health::Unknown(checks + 1)
            }
            _ => Health::Down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_some_time_to_connect_and_none_to_go_away() {
        let mut health = Health::Unknown(0);
        for checks in 1..CHECKS_TO_CONNECT {
            health = health.after(false);
            assert_eq!(health, Health::Unknown(checks));
        }
        assert_eq!(health.after(true), Health::Up);
        health = health.after(false);
        assert_eq!(health, Health::Down);
        health = health.after(true);
        assert_eq!(health, Health::Up);
        assert_eq!(health.after(false), Health::Down);
    }
}
