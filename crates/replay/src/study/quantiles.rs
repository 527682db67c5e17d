//! Quantiles of counts, by the nearest rank: each is one of the counts.

/// Quantiles of counts; all are 0 if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Half of the counts are at most this.
    pub p50: u32,
    /// 95 % of them are.
    pub p95: u32,
    /// 99 % of them are.
    pub p99: u32,
    /// 99.9 % of them are.
    pub p999: u32,
    /// The largest.
    pub max: u32,
}

/// The quantiles of these counts.
pub(super) fn quantiles(mut counts: Vec<u32>) -> Quantiles {
    counts.sort_unstable();
    let at = |per_mille: usize| {
        let rank = (counts.len() * per_mille).div_ceil(1000).max(1);
        counts.get(rank - 1).copied().unwrap_or(0)
    };
    Quantiles {
        p50: at(500),
        p95: at(950),
        p99: at(990),
        p999: at(999),
        max: at(1000),
    }
}
