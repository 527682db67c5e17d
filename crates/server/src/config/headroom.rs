//! `headroom`: which pressures leave room for the elastic parts of limits.

use std::path::PathBuf;

use tollgate_core::Span;
use tollgate_engine::Thresholds;
use tollgate_rules::Settings;

/// The shortest and the longest time between two samples.
const INTERVAL: (Span, Span) = (Span::from_millis(100), Span::MINUTE);
/// The longest hold time.
const HOLD_MAX: Span = Span::HOUR;
/// The largest percentage.
const PERCENT_MAX: u32 = 100;

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
            cpu: thresholds(map, "cpu", default.cpu),
            memory: thresholds(map, "memory", default.memory),
            root: default.root,
        }
    }
}

/// The map `key`, with `low` and `high`.
fn thresholds(map: &Settings<'_>, key: &'static str, default: Thresholds) -> Thresholds {
    let taken = map.map(key, |map| Thresholds {
        low: map.parse("low", "60%", percent).unwrap_or(default.low),
        high: map.parse("high", "80%", percent).unwrap_or(default.high),
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
fn percent(text: &str) -> Result<u32, String> {
    let digits = text.strip_suffix('%').unwrap_or_default();
    match digits.parse::<u32>() {
        Ok(number) if number <= PERCENT_MAX => Ok(number * 10),
        _ => Err(format!("is not a percentage from 0% to {PERCENT_MAX}%")),
    }
}
