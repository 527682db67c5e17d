//! Calendar dates of moments, in UTC, as logs write them.

use std::fmt;
use std::time::Duration;

const SECS_PER_DAY: u64 = 86_400;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Utc {
    year: u64,
    /// From 1.
    month: u64,
    day: u64,
    secs: u64,
    millis: u32,
}

/// `2026-03-01T12:00:00.000Z`, as in RFC 3339.
pub(crate) struct Rfc3339(pub(crate) Utc);

/// `01/Mar/2026:12:00:00 +0000`, as in access logs.
pub(crate) struct Clf(pub(crate) Utc);

// === impl Utc ===

impl Utc {
    /// The date at this time since 1970.
    pub(crate) fn of(since_1970: Duration) -> Utc {
        let secs = since_1970.as_secs();
        let (year, month, day) = date(secs / SECS_PER_DAY);
        Utc {
            year,
            month,
            day,
            secs: secs % SECS_PER_DAY,
            millis: since_1970.subsec_millis(),
        }
    }

    const fn time_of_day(self) -> (u64, u64, u64) {
        (self.secs / 3600, self.secs / 60 % 60, self.secs % 60)
    }
}

/// Year, month and day of a number of days since 1970.
///
/// Counts in years that begin with March, so that a leap day is the last of its year, and in
/// periods of 400 years, which all have the same number of days.
const fn date(days: u64) -> (u64, u64, u64) {
    // From 0000-03-01.
    let days = days + 719_468;
    let (period, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months have 153 days: 31, 30, 31, 30, 31.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + period * 400;
    match month {
        0..=9 => (year, month + 3, day),
        _ => (year + 1, month - 9, day),
    }
}

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc {
            year,
            month,
            day,
            millis,
            ..
        } = self.0;
        let (hour, minute, second) = self.0.time_of_day();
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

impl fmt::Display for Clf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc {
            year, month, day, ..
        } = self.0;
        let (hour, minute, second) = self.0.time_of_day();
        let month = usize::try_from(month - 1).expect("there are twelve");
        let month = MONTHS[month];
        write!(
            f,
            "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // From `date -u -d @SECONDS`.
        for (millis, rfc3339, clf) in [
            (0, "1970-01-01T00:00:00.000Z", "01/Jan/1970:00:00:00 +0000"),
            (
                951_782_399_999,
                "2000-02-28T23:59:59.999Z",
                "28/Feb/2000:23:59:59 +0000",
            ),
            (
                951_868_800_000,
                "2000-03-01T00:00:00.000Z",
                "01/Mar/2000:00:00:00 +0000",
            ),
            (
                1_709_210_096_007,
                "2024-02-29T12:34:56.007Z",
                "29/Feb/2024:12:34:56 +0000",
            ),
            (
                1_798_761_599_000,
                "2026-12-31T23:59:59.000Z",
                "31/Dec/2026:23:59:59 +0000",
            ),
            (
                4_107_542_400_000,
                "2100-03-01T00:00:00.000Z",
                "01/Mar/2100:00:00:00 +0000",
            ),
        ] {
            let utc = Utc::of(Duration::from_millis(millis));
            assert_eq!(Rfc3339(utc).to_string(), rfc3339);
            assert_eq!(Clf(utc).to_string(), clf);
        }
    }
}
