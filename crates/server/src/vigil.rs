//! Says when a shared store goes away, and when it is back.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_listen::Stopping;
use tollgate_redis::{Counts, Event, Redis};
use tracing::{info, warn};

use crate::stores::Stores;

/// How often stores are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// After how many looks a store that was never there is said to be away.
const LOOKS_PATIENT: u32 = 4;

/// What was last told of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Nothing, for so many looks.
    Nothing(u32),
    Up,
    Away,
}

/// Looks at every shared store until it is time to stop, and logs what changes: decisions without
/// a store are too many for a line each.
pub(crate) async fn watch_over(stores: Arc<Stores>, mut stopping: Stopping) {
    let mut told: Vec<Told> = stores.in_redis().map(|_| Told::Nothing(0)).collect();
    if told.is_empty() {
        return;
    }
    loop {
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            () = stopping.wait() => return,
        }
        for ((store, redis), told) in stores.in_redis().zip(&mut told) {
            redis.events().iter().for_each(|event| log(store, event));
            let next = told.after(is_there(redis, &redis.counts()));
            match (*told, next) {
                (Told::Nothing(_), Told::Up) => info!(store, "Redis is there"),
                (Told::Away, Told::Up) => info!(store, "Redis is back"),
                (Told::Nothing(_) | Told::Up, Told::Away) => {
                    let reason = redis.trouble();
                    let reason = reason.as_deref().unwrap_or("it does not answer");
                    warn!(
                        store,
                        reason, "Redis is away; each limit does what its `on_store_error` says"
                    );
                }
                _ => {}
            }
            *told = next;
        }
    }
}

/// One line for each event; the store throttles those that repeat.
fn log(store: &str, event: &Event) {
    match event {
        Event::ErrorReplies {
            node,
            code,
            text,
            count,
        } => warn!(store, node, code, text, count, "Redis replies with errors"),
        Event::PrimaryChanged { from, to } => {
            warn!(
                store,
                from, to, "the sentinels name another primary; the former is left"
            );
        }
        _ => {}
    }
}

/// Whether a store answers. One that was never connected does not, whatever its breaker says.
pub(crate) fn is_there(redis: &Redis, counts: &Counts) -> bool {
    redis.is_up() && counts.connections > 0
}

// === impl Told ===

impl Told {
    fn after(self, is_there: bool) -> Told {
        match self {
            _ if is_there => Told::Up,
            Told::Nothing(looks) if looks + 1 < LOOKS_PATIENT => Told::Nothing(looks + 1),
            _ => Told::Away,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_some_time_to_come_and_none_to_go() {
        let mut told = Told::Nothing(0);
        for look in 1..LOOKS_PATIENT {
            told = told.after(false);
            assert_eq!(told, Told::Nothing(look));
        }
        assert_eq!(told.after(true), Told::Up);
        told = told.after(false);
        assert_eq!(told, Told::Away);
        told = told.after(true);
        assert_eq!(told, Told::Up);
        assert_eq!(told.after(false), Told::Away);
    }
}
