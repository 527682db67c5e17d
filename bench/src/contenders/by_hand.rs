//! A `DashMap` of fixed windows, as a simple limiter of one's own.

use std::time::{Duration, Instant};

use dashmap::DashMap;

use crate::contender::{Contender, Outcome};
use crate::keys::BenchKey;

/// For each key, when its window began and what it has used. Nothing is ever removed.
pub(crate) struct ByHand<K: BenchKey> {
    windows: DashMap<K, (Instant, u32)>,
    count: u32,
}

const WINDOW: Duration = Duration::from_secs(3600);

// === impl ByHand ===

impl<K: BenchKey> Contender<K> for ByHand<K> {
    fn build(_keys: u64, outcome: Outcome) -> ByHand<K> {
        let (_, count) = outcome.per_hour_and_burst();
        ByHand {
            windows: DashMap::new(),
            count,
        }
    }

    #[inline(always)]
    fn check(&self, key: &K) -> bool {
        let now = Instant::now();
        let mut window = self.windows.entry(key.clone()).or_insert((now, 0));
        let (began, used) = *window;
        if now - began >= WINDOW {
            *window = (now, 1);
            return true;
        }
        if used >= self.count {
            return false;
        }
        window.1 += 1;
        true
    }
}
