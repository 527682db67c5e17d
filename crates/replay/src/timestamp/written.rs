//! Times as programs write them into logs: the form is known by its shape, line by line.

use tollgate_core::Moment;

use super::{BadMoment, Civil, MONTHS, digits, moment, nanos, offset, rfc3339, seconds};

/// The bytes of `17/May/2015:10:05:03`.
const CLF_LOCAL_BYTES: usize = 20;
/// The bytes of `2015-05-17T10:05:03`.
const RFC3339_LOCAL_BYTES: usize = 19;
/// A whole number below this is of seconds (until the year 5138), below a thousand times this of
/// milliseconds (from 1973), and so on.
const SECONDS_MAX: u64 = 100_000_000_000;

/// The time of a line, in any of the forms that programs write: that of access logs, with or
/// without a zone and a fraction; RFC 3339 and ISO 8601, also without a zone; a number of seconds,
/// or a whole number of milliseconds, microseconds or nanoseconds. Without a zone, it is in UTC.
///
/// # Errors
///
/// [`BadMoment`].
pub(crate) fn written(text: &[u8]) -> Result<Moment, BadMoment> {
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let text = text.strip_suffix(b"]").unwrap_or(text);
    match (text.get(2), text.get(4)) {
        (Some(b'/'), _) => access_log(text),
        (_, Some(b'-')) => iso8601(text),
        _ => number(text),
    }
}

/// `17/May/2015:10:05:03.25 +0000`, zone and fraction optional.
fn access_log(text: &[u8]) -> Result<Moment, BadMoment> {
    let (local, rest) = text
        .split_at_checked(CLF_LOCAL_BYTES)
        .ok_or(BadMoment::Form)?;
    if [2, 6, 11, 14, 17].map(|at| local[at]) != *b"//:::" {
        return Err(BadMoment::Form);
    }
    let month = MONTHS.iter().position(|name| *name == &local[3..6]);
    let civil = Civil {
        year: digits(&local[7..11])?,
        month: i64::try_from(month.ok_or(BadMoment::Form)? + 1).map_err(|_| BadMoment::Form)?,
        day: digits(&local[0..2])?,
        hour: digits(&local[12..14])?,
        minute: digits(&local[15..17])?,
        second: digits(&local[18..20])?,
    };
    let (fraction, zone) = split_fraction(rest)?;
    civil.moment(fraction, zone_minutes(zone.trim_ascii_start())?)
}

/// `2015-05-17T10:05:03.25+02:00`, zone and fraction optional, the zone also without its colon.
fn iso8601(text: &[u8]) -> Result<Moment, BadMoment> {
    let (local, rest) = text
        .split_at_checked(RFC3339_LOCAL_BYTES)
        .ok_or(BadMoment::Form)?;
    let (_, zone) = split_fraction(rest)?;
    let minutes = zone_minutes(zone.trim_ascii_start())?;
    let fraction = &rest[..rest.len() - zone.len()];
    // The same in the one form that RFC 3339 has.
    let zone = format!(
        "{}{:02}:{:02}",
        if minutes < 0 { '-' } else { '+' },
        minutes.abs() / 60,
        minutes.abs() % 60
    );
    let whole = [local, fraction, zone.as_bytes()].concat();
    rfc3339(std::str::from_utf8(&whole).map_err(|_| BadMoment::Form)?)
}

/// A fraction in nanoseconds, and what follows it.
fn split_fraction(text: &[u8]) -> Result<(i64, &[u8]), BadMoment> {
    let Some(rest) = text.strip_prefix(b".") else {
        return Ok((0, text));
    };
    let end = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    Ok((nanos(&rest[..end])?, &rest[end..]))
}

/// Minutes ahead of UTC: `Z`, `+0200`, `+02:00`, `+02`, or nothing.
fn zone_minutes(zone: &[u8]) -> Result<i64, BadMoment> {
    match zone {
        [] | [b'Z' | b'z'] => Ok(0),
        [sign @ (b'+' | b'-'), h1, h2] => offset(*sign, &[*h1, *h2], b"00"),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] | [sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
            offset(*sign, &[*h1, *h2], &[*m1, *m2])
        }
        _ => Err(BadMoment::Form),
    }
}

/// A number of seconds with or without decimals, or a whole number in a smaller unit, which is
/// known by its size.
fn number(text: &[u8]) -> Result<Moment, BadMoment> {
    let text = std::str::from_utf8(text).map_err(|_| BadMoment::Form)?;
    match text.parse::<u64>() {
        Ok(whole) if whole >= SECONDS_MAX => {
            let units = [1_000_000, 1_000, 1];
            let mut below = SECONDS_MAX;
            for nanos in units {
                below = below.saturating_mul(1000);
                if whole < below || nanos == 1 {
                    return moment(whole.checked_mul(nanos).ok_or(BadMoment::Late)?);
                }
            }
            Err(BadMoment::Late)
        }
        _ => seconds(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_known_by_its_shape() {
        let expected = Ok(Moment::from_nanos(1_431_857_103_250_000_000));
        for text in [
            "17/May/2015:10:05:03.25 +0000",
            "[17/May/2015:12:05:03.250 +0200]",
            "17/May/2015:10:05:03.250",
            "2015-05-17T10:05:03.25Z",
            "2015-05-17 10:05:03.25",
            "2015-05-17T12:05:03.250000+0200",
            "2015-05-17T08:05:03.25-02",
            "2015-05-17T08:05:03.250-02:00",
            "1431857103.25",
            "1.43185710325e9",
            "1431857103250",
            "1431857103250000",
            " 1431857103250000000 ",
        ] {
            assert_eq!(written(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(
            written(b"[29/Nov/2017:06:58:55"),
            Ok(Moment::from_nanos(1_511_938_735_000_000_000))
        );
        assert_eq!(written(b"1431857103"), seconds("1431857103"));
    }

    #[test]
    fn what_is_no_time_says_why() {
        for (text, why) in [
            ("", BadMoment::Form),
            ("[", BadMoment::Form),
            ("yesterday", BadMoment::Form),
            ("17/May/2015", BadMoment::Form),
            ("17/Mai/2015:10:05:03", BadMoment::Form),
            ("17/May/2015:10:05:03 CET", BadMoment::Form),
            ("2015-05-17", BadMoment::Form),
            ("2015-05-17T10:05:03+2", BadMoment::Form),
            ("2015-02-30T10:05:03", BadMoment::Calendar),
            ("32/May/2015:10:05:03", BadMoment::Calendar),
            ("-5", BadMoment::Early),
            ("99999999999999999999999", BadMoment::Late),
            ("16725225600000000001", BadMoment::Late),
            ("16725225600001", BadMoment::Late),
        ] {
            assert_eq!(written(text.as_bytes()), Err(why), "{text}");
        }
    }
}
