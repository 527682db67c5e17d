//! How many files and connections the system allows this process to have open.

use rustix::process::{Resource, getrlimit, setrlimit};
use tracing::warn;

use crate::limits::Limits;
use crate::permits::RESERVED;

/// Reserved for everything but clients' connections: listeners, rules, logs, stores in Redis.
const OTHERS: usize = 256;
/// The fewest connections that a listener gets.
const CONNECTIONS_MIN: usize = 16;

/// The present limit; `None` if there is none.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the limit as far as the system allows.
pub fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Where the system does not allow it, `fit` uses the present limit.
        let _as_it_was = setrlimit(Resource::Nofile, limit);
    }
}

/// `limits` with no more connections to each listener than open files allow; a reduction is logged.
///
/// `onward` is the most connections that a proxy opens to the servers behind it. There is room for
/// all of them or, if they are more than its clients' connections, for one for each of those.
pub fn fit(limits: Limits, listeners: usize, onward: usize) -> Limits {
    let fitted = fit_to(limits, (listeners, onward), limit());
    if fitted != limits {
        let open_files = limit().unwrap_or(u64::MAX);
        let (configured, used) = (limits.connections, fitted.connections);
        warn!(
            open_files,
            configured,
            used,
            "fewer open files than `limits.connections` needs; raise the limit (`ulimit -n`) or \
             lower the setting"
        );
    }
    fitted
}

fn fit_to(limits: Limits, (listeners, onward): (usize, usize), open_files: Option<u64>) -> Limits {
    let Some(open_files) = open_files else {
        return limits;
    };
    let open_files = usize::try_from(open_files).unwrap_or(usize::MAX);
    let kept = OTHERS + limits.admin_connections + RESERVED * (listeners + 1);
    let left = open_files.saturating_sub(kept);
    // Whichever allows more: as many onward connections as there may be, or one for each client's.
    let beside_all = left.saturating_sub(onward) / listeners.max(1);
    let one_for_each = left / (listeners + 1);
    let fitting = beside_all.max(one_for_each);
    Limits {
        connections: limits.connections.min(fitting.max(CONNECTIONS_MIN)),
        ..limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fit_into_the_open_files() {
        let limits = Limits::default();
        let fit = |listeners, open_files| fit_to(limits, (listeners, 0), open_files);
        assert_eq!(fit(2, None), limits);
        assert_eq!(fit(2, Some(20_000)), limits);
        let kept = 256 + 64 + 3 * 16;
        assert_eq!(fit(2, Some(1024)).connections, (1024 - kept) / 2);
        let kept = kept - RESERVED;
        assert_eq!(fit(1, Some(1024)).connections, 1024 - kept);
        assert_eq!(fit(2, Some(100)).connections, CONNECTIONS_MIN);
    }

    #[test]
    fn onward_connections_take_open_files_up_to_one_for_each_client() {
        let limits = Limits {
            connections: 100_000,
            ..Limits::default()
        };
        let left = 20_000 - (256 + 64 + 2 * 16);
        let fit = |onward| fit_to(limits, (1, onward), Some(20_000)).connections;
        assert_eq!(fit(1024), left - 1024);
        assert_eq!(fit(left / 2), left / 2);
        assert_eq!(fit(65_536), left / 2);
    }
}
