//! Numbers as text.

use std::time::Duration;

/// What a rate of which nothing is known looks like.
pub(super) const UNKNOWN: &str = "–";

/// Thousandths of something that happens in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rate(pub(super) u64);

// === impl Rate ===

impl Rate {
    /// So many in so many milliseconds, which are not 0.
    pub(super) fn new(count: u64, millis: u64) -> Rate {
        let thousandths = u128::from(count) * 1_000_000 / u128::from(millis.max(1));
        Rate(u64::try_from(thousandths).unwrap_or(u64::MAX))
    }
}

/// `1,234,567`.
pub(super) fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1,234`, `12.3`, `0.012`.
pub(super) fn per_second(rate: Option<Rate>) -> String {
    rate.map_or_else(
        || UNKNOWN.to_owned(),
        |Rate(thousandths)| short(thousandths),
    )
}

/// `12.3 µs`, `1.5 s`.
pub(super) fn time(time: Option<Duration>) -> String {
    let Some(time) = time else {
        return UNKNOWN.to_owned();
    };
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (unit, thousandths) = match nanos {
        0..1_000_000 => ("µs", nanos),
        1_000_000..1_000_000_000 => ("ms", nanos / 1_000),
        _ => ("s", nanos / 1_000_000),
    };
    format!("{} {unit}", short(thousandths))
}

/// `1.5 MiB`.
pub(super) fn bytes(number: u64) -> String {
    let units = [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let fitting = units.iter().rev().find(|(_, shift)| number >> shift > 0);
    let (unit, shift) = fitting.unwrap_or(&units[0]);
    let thousandths = (u128::from(number) * 1000) >> shift;
    format!(
        "{} {unit}",
        short(u64::try_from(thousandths).unwrap_or(u64::MAX))
    )
}

/// `5 s ago`, `2 min ago`, `3 h ago`.
pub(super) fn ago(seconds: u64) -> String {
    format!("{} ago", span(seconds))
}

/// `5 s`, `2 min`, `3 h`.
pub(super) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h", whole(seconds / 3600)),
    }
}

/// `12.3 %` of a whole, which is at least the part.
pub(super) fn percent(part: u64, of: u64) -> String {
    let thousandths = u128::from(part) * 1000 / u128::from(of.max(1));
    let thousandths = u64::try_from(thousandths).unwrap_or(u64::MAX);
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// Three digits of a number of thousandths, or all that are before its point.
fn short(thousandths: u64) -> String {
    let (unit, decimals) = match thousandths {
        0..1_000 => (1, 3),
        1_000..10_000 => (10, 2),
        10_000..100_000 => (100, 1),
        _ => return whole(thousandths.saturating_add(500) / 1000),
    };
    let rounded = (thousandths + unit / 2) / unit * unit;
    let decimal = format!("{:03}", rounded % 1000);
    let text = format!("{}.{}", whole(rounded / 1000), &decimal[..decimals]);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (thousandths, text) in [
            (0, "0"),
            (12, "0.012"),
            (1_000, "1"),
            (1_234, "1.23"),
            (9_999, "10"),
            (12_345, "12.3"),
            (99_960, "100"),
            (1_234_567, "1,235"),
            (u64::MAX, "18,446,744,073,709,551"),
        ] {
            assert_eq!(per_second(Some(Rate(thousandths))), text);
        }
        assert_eq!(per_second(None), UNKNOWN);
        assert_eq!(Rate::new(5, 2_000), Rate(2_500));
        assert_eq!(Rate::new(u64::MAX, 1), Rate(u64::MAX));
        for (nanos, text) in [
            (10_000, "10 µs"),
            (250_000, "250 µs"),
            (1_500_000, "1.5 ms"),
            (2_000_000_000, "2 s"),
        ] {
            assert_eq!(time(Some(Duration::from_nanos(nanos))), text);
        }
        let table = [
            (0, "0 B"),
            (1023, "1,023 B"),
            (1536, "1.5 KiB"),
            (3 << 30, "3 GiB"),
        ];
        for (number, text) in table {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(0, 0), "0.0 %");
        assert_eq!(
            [ago(59), ago(60), ago(7200)],
            ["59 s ago", "1 min ago", "2 h ago"]
        );
    }
}
