//! `explain`: what is kept of denied requests, and what is shown of them.

use tollgate_engine::{DENIED_REQUESTS, DENIED_REQUESTS_MAX};
use tollgate_rules::Settings;

/// `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explain {
    /// `denied_requests`: how many denied requests can be explained afterwards, by their id.
    /// Default: 4096; 0 keeps none.
    pub denied_requests: usize,
    /// `show_values`: show the values of denied requests, which may be secrets. Default: `false`.
    pub show_values: bool,
}

impl Default for Explain {
    fn default() -> Explain {
        Explain {
            denied_requests: DENIED_REQUESTS,
            show_values: false,
        }
    }
}

// === impl Explain ===

impl Explain {
    pub(super) fn take(map: &Settings<'_>) -> Explain {
        let count = |number: usize| u32::try_from(number).expect("the bounds are small");
        let range = (0, count(DENIED_REQUESTS_MAX));
        let kept = map.count("denied_requests", count(DENIED_REQUESTS), range);
        Explain {
            denied_requests: usize::try_from(kept).expect("32 bits fit"),
            show_values: map.flag("show_values", false),
        }
    }
}
