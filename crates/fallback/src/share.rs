//! One instance's part of a limit.

use tollgate_core::{Charge, Limit, LimitHistory};

/// An instance's share of a limit, and of the limits that its rule had before.
pub(crate) struct Share {
    pub(crate) limit: Limit,
    pub(crate) history: Option<LimitHistory>,
}

// === impl Share ===

impl Share {
    pub(crate) fn of(charge: &Charge<'_>, instances: u32) -> Share {
        let was_changed = charge.history != LimitHistory::none();
        Share {
            limit: share(charge.limit, instances),
            history: was_changed.then(|| charge.history.map(|former| share(former, instances))),
        }
    }
}

/// An instance's share of a limit: rounded down, but at least one unit if the limit has any.
fn share(limit: &Limit, instances: u32) -> Limit {
    let part = |units: u32| match units {
        0 => 0,
        units => (units / instances).max(1),
    };
    let shared = Limit::new(limit.algorithm(), part(limit.count()), limit.window());
    let shared = shared.and_then(|shared| match shared.is_bucket() {
        true => shared.with_burst(part(limit.nominal())),
        false => Ok(shared),
    });
    // A smaller limit of the same window is valid; otherwise the whole one applies.
    let shared = shared.and_then(|shared| shared.with_parts_of(limit));
    shared.unwrap_or(*limit)
}
