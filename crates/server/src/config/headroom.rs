//! `headroom`: which pressures leave room for the elastic parts of limits.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use tollgate_core::Span;
use tollgate_engine::{Pace, Thresholds};
use tollgate_gateway::LoadSettings;
use tollgate_rules::Settings;

/// The shortest and the longest time between two samples.
const INTERVAL: (Span, Span) = (Span::from_millis(100), Span::MINUTE);
/// The longest hold time.
const HOLD_MAX: Span = Span::HOUR;
/// Percentages of a whole.
const SHARES: RangeInclusive<u32> = 0..=100;
/// Percentages of a baseline, which a pressure is compared with.
const RATIOS: RangeInclusive<u32> = 100..=10_000;
/// The shortest and the longest time that requests count as the recent ones.
const WINDOW: (Span, Span) = (Span::SECOND, Span::from_secs(600));
/// The longest time that baselines need.
const BASELINE_MAX: Span = Span::DAY;
/// The most requests that may be needed.
const SAMPLES_MAX: u32 = 1_000_000;
/// After so many intervals without a sample, what was sampled before counts no more.
const SAMPLES_MISSED_MAX: u64 = 3;

/// `headroom`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadroomConfig {
    /// `interval`: the time between two samples. Default: a second.
    pub interval: Span,
    /// `hold`: how long every pressure has to be low before headroom begins. Default: 30 seconds.
    pub hold: Span,
    /// `cpu`: the use of the processors. Default: 60% and 80%.
    pub cpu: Thresholds,
    /// `memory`: the use of the memory. Default: 80% and 90%.
    pub memory: Thresholds,
    /// `upstream`: how the load of an upstream is judged.
    pub upstream: LoadSettings,
    /// The directory that has `proc` and `sys`: `/`, but for tests. No setting.
    pub root: PathBuf,
}

impl Default for HeadroomConfig {
    fn default() -> HeadroomConfig {
        HeadroomConfig {
            interval: Span::SECOND,
            hold: Span::from_secs(30),
            cpu: Thresholds {
                low: 600,
                high: 800,
            },
            memory: Thresholds {
                low: 800,
                high: 900,
            },
            upstream: LoadSettings::default(),
            root: PathBuf::from("/"),
        }
    }
}

// === impl HeadroomConfig ===

impl HeadroomConfig {
    pub(super) fn take(map: &Settings<'_>) -> HeadroomConfig {
        let default = HeadroomConfig::default();
        let interval = map.span("interval", default.interval, INTERVAL);
        HeadroomConfig {
            interval,
            hold: map.span("hold", default.hold, (interval, HOLD_MAX)),
            cpu: thresholds(map, "cpu", default.cpu, &SHARES),
            memory: thresholds(map, "memory", default.memory, &SHARES),
            upstream: map.map("upstream", load),
            root: default.root,
        }
    }

    /// How long headroom needs to begin, and how old a sample may be.
    pub(crate) const fn pace(&self) -> Pace {
        Pace {
            hold: self.hold,
            sample_age_max: self.interval.times(SAMPLES_MISSED_MAX),
        }
    }
}

/// The map `upstream`.
fn load(map: &Settings<'_>) -> LoadSettings {
    let default = LoadSettings::default();
    let window = map.span("window", default.window, WINDOW);
    LoadSettings {
        latency: thresholds(map, "latency", default.latency, &RATIOS),
        errors: thresholds(map, "errors", default.errors, &SHARES),
        window,
        baseline: map.span("baseline", default.baseline, (window, BASELINE_MAX)),
        samples: map.count("samples", default.samples, (1, SAMPLES_MAX)),
    }
}

/// The map `key`, with `low` and `high`.
fn thresholds(
    map: &Settings<'_>,
    key: &'static str,
    default: Thresholds,
    range: &RangeInclusive<u32>,
) -> Thresholds {
    let example = |parts: u32| format!("{}%", parts / 10);
    let taken = map.map(key, |map| {
        let read = |key, default: u32| {
            let read = map.parse(key, &example(default), |text| percent(text, range));
            read.unwrap_or(default)
        };
        Thresholds {
            low: read("low", default.low),
            high: read("high", default.high),
        }
    });
    if taken.low >= taken.high {
        let (low, high) = (taken.low / 10, taken.high / 10);
        let message =
            format!("`low` is {low}% and `high` is {high}%: headroom begins below where it ends");
        map.report_error(key, message, "write a `low` that is below `high`");
        return default;
    }
    taken
}

/// A percentage, as parts of a thousand.
fn percent(text: &str, range: &RangeInclusive<u32>) -> Result<u32, String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    match digits.parse::<u32>() {
        Ok(number) if range.contains(&number) => Ok(number * 10),
        _ => {
            let (least, most) = (range.start(), range.end());
            Err(format!("is not a percentage from {least}% to {most}%"))
        }
    }
}
