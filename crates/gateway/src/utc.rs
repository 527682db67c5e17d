//! Calendar dates of moments, in UTC, as logs write them.

use std::fmt::Display;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};

/// `2026-03-01T12:00:00.000Z`, as in RFC 3339.
pub(crate) fn format_rfc3339(since_1970: Duration) -> String {
    date(since_1970).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// `01/Mar/2026:12:00:00 +0000`, as in access logs.
pub(crate) fn format_clf(since_1970: Duration) -> impl Display {
    date(since_1970).format("%d/%b/%Y:%H:%M:%S +0000")
}

/// 1970 for a year beyond those that calendars have.
fn date(since_1970: Duration) -> DateTime<Utc> {
    let secs = i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX);
    DateTime::from_timestamp(secs, since_1970.subsec_nanos()).unwrap_or_default()
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
            let since_1970 = Duration::from_millis(millis);
            assert_eq!(format_rfc3339(since_1970), rfc3339);
            assert_eq!(format_clf(since_1970).to_string(), clf);
        }
    }
}
