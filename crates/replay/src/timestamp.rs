//! Parses the times in logs and traces exactly, without floating point and rounding.
//!
//! All of them are nanoseconds since 1970 in UTC, up to [`MOMENT_MAX`]. What lies outside, or is
//! finer than a nanosecond, is rejected. A leap second (`:60`) is read as POSIX
//! reads it: as the first second of the next minute.

use std::fmt;

use tollgate_core::Moment;

pub(crate) mod written;

/// The latest moment that is replayed: 2500-01-01. No window that follows reaches the end of
/// representable time (2554), where times saturate and waits would be wrong, and no bucket but one
/// that takes more than half a century to refill.
pub(crate) const MOMENT_MAX: Moment = Moment::from_nanos(16_725_225_600_000_000_000);
/// The decimal places of a nanosecond.
const DECIMALS: usize = 9;
const NANOS_PER_SEC: i128 = 1_000_000_000;
/// Beyond this many decimal places either way no number but zero is in range.
const EXPONENT_MAX: i64 = 1_000_000;

/// Why a text is not a moment that can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadMoment {
    /// Not in the expected format.
    Form,
    /// No such day or time: the 30th of February, 25 o'clock.
    Calendar,
    /// Before 1970.
    Early,
    /// After [`MOMENT_MAX`].
    Late,
    /// Finer than a nanosecond.
    Fine,
}

/// `17/May/2015:10:05:03 +0000`, as access logs write it between brackets.
///
/// # Errors
///
/// [`BadMoment`].
pub(crate) fn clf(text: &[u8]) -> Result<Moment, BadMoment> {
    let text: &[u8; CLF_BYTES] = text.try_into().map_err(|_| BadMoment::Form)?;
    if [2, 6, 11, 14, 17, 20].map(|at| text[at]) != *b"//::: " {
        return Err(BadMoment::Form);
    }
    let month = MONTHS.iter().position(|name| *name == &text[3..6]);
    let civil = Civil {
        year: digits(&text[7..11])?,
        month: i64::try_from(month.ok_or(BadMoment::Form)? + 1).map_err(|_| BadMoment::Form)?,
        day: digits(&text[0..2])?,
        hour: digits(&text[12..14])?,
        minute: digits(&text[15..17])?,
        second: digits(&text[18..20])?,
    };
    civil.moment(0, offset(text[21], &text[22..24], &text[24..26])?)
}

/// The bytes of a time in an access log, without its brackets.
pub(crate) const CLF_BYTES: usize = 26;

const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// `2015-05-17T10:05:03.25+02:00`, as RFC 3339 has it, with as many decimals as are zero after the
/// ninth.
///
/// # Errors
///
/// [`BadMoment`].
pub(crate) fn rfc3339(text: &str) -> Result<Moment, BadMoment> {
    let (local, rest) = text
        .as_bytes()
        .split_at_checked(19)
        .ok_or(BadMoment::Form)?;
    let separators = [4, 7, 10, 13, 16].map(|at| local[at]);
    if !matches!(&separators, [b'-', b'-', b'T' | b't' | b' ', b':', b':']) {
        return Err(BadMoment::Form);
    }
    let civil = Civil {
        year: digits(&local[0..4])?,
        month: digits(&local[5..7])?,
        day: digits(&local[8..10])?,
        hour: digits(&local[11..13])?,
        minute: digits(&local[14..16])?,
        second: digits(&local[17..19])?,
    };
    let (fraction, zone) = match rest.split_first() {
        Some((b'.', rest)) => {
            let end = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (nanos(&rest[..end])?, &rest[end..])
        }
        _ => (0, rest),
    };
    let offset_minutes = match zone {
        [b'Z' | b'z'] => 0,
        [sign, h1, h2, b':', m1, m2] => offset(*sign, &[*h1, *h2], &[*m1, *m2])?,
        _ => return Err(BadMoment::Form),
    };
    civil.moment(fraction, offset_minutes)
}

/// Any of the forms that people write or copy: those below, a date, and a date and a time without
/// seconds or zone, in UTC.
///
/// # Errors
///
/// [`BadMoment`].
pub(crate) fn any_form(text: &str) -> Result<Moment, BadMoment> {
    /// What completes a time to RFC 3339.
    const REST: [&str; 4] = ["", "Z", ":00Z", "T00:00:00Z"];
    let whole = REST.map(|rest| rfc3339(&format!("{text}{rest}")));
    // The time of an access log has slashes, and needs no zone either.
    let others = match text.contains('/') {
        true => written::written(text.as_bytes()),
        false => seconds(text),
    };
    let mut why = BadMoment::Form;
    for moment in whole.into_iter().chain([others]) {
        match moment {
            Err(BadMoment::Form) => {}
            Err(bad) => why = bad,
            Ok(moment) => return Ok(moment),
        }
    }
    Err(why)
}

/// A JSON number of seconds: `1431857103`, `0.3`, `1.2e9`.
///
/// # Errors
///
/// [`BadMoment`].
pub(crate) fn seconds(number: &str) -> Result<Moment, BadMoment> {
    let (number, negative) = match number.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (number, false),
    };
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = whole
        .bytes()
        .chain(fraction.bytes())
        .all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !all_digits || mantissa.ends_with('.') {
        return Err(BadMoment::Form);
    }
    let written = [whole, fraction].concat();
    let significant = written.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return Ok(Moment::ZERO);
    }
    if negative {
        return Err(BadMoment::Early);
    }
    let trailing_zeros = written.len() - written.trim_end_matches('0').len();
    let places = |count: usize| i64::try_from(count).map_err(|_| BadMoment::Late);
    // The number is `significant` times 10 to the power of `shift`, in nanoseconds.
    let shift = exponent - places(fraction.len())? + places(trailing_zeros)? + places(DECIMALS)?;
    scale(significant, shift)
}

fn exponent_of(text: &str) -> Result<i64, BadMoment> {
    let (digits, negative) = match text.as_bytes().first() {
        Some(b'-') => (&text[1..], true),
        Some(b'+') => (&text[1..], false),
        _ => (text, false),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadMoment::Form);
    }
    let size = digits.parse().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX);
    Ok(if negative { -size } else { size })
}

fn scale(significant: &str, shift: i64) -> Result<Moment, BadMoment> {
    let shift = u32::try_from(shift).map_err(|_| BadMoment::Fine)?;
    let digits: u64 = significant.parse().map_err(|_| BadMoment::Late)?;
    let nanos = 10_u64
        .checked_pow(shift)
        .and_then(|power| digits.checked_mul(power));
    moment(nanos.ok_or(BadMoment::Late)?)
}

/// The moment so many nanoseconds after 1970, if it is not too late.
fn moment(nanos: u64) -> Result<Moment, BadMoment> {
    let moment = Moment::from_nanos(nanos);
    match moment > MOMENT_MAX {
        false => Ok(moment),
        true => Err(BadMoment::Late),
    }
}

/// The digits after a decimal point, as nanoseconds.
fn nanos(fraction: &[u8]) -> Result<i64, BadMoment> {
    if fraction.is_empty() {
        return Err(BadMoment::Form);
    }
    let (kept, beyond) = fraction.split_at(fraction.len().min(DECIMALS));
    if beyond.iter().any(|digit| *digit != b'0') {
        return Err(BadMoment::Fine);
    }
    let missing = u32::try_from(DECIMALS - kept.len()).map_err(|_| BadMoment::Form)?;
    Ok(digits(kept)? * 10_i64.pow(missing))
}

/// Minutes that local time is ahead of UTC.
fn offset(sign: u8, hours: &[u8], minutes: &[u8]) -> Result<i64, BadMoment> {
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    if hours > 23 || minutes > 59 {
        return Err(BadMoment::Calendar);
    }
    match sign {
        b'+' => Ok(hours * 60 + minutes),
        b'-' => Ok(-(hours * 60 + minutes)),
        _ => Err(BadMoment::Form),
    }
}

/// At most 9 digits, all of them digits.
fn digits(text: &[u8]) -> Result<i64, BadMoment> {
    text.iter().try_fold(0, |number, byte| match byte {
        b'0'..=b'9' => Ok(number * 10 + i64::from(byte - b'0')),
        _ => Err(BadMoment::Form),
    })
}

/// A day and a time of the Gregorian calendar, in some zone.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Civil {
    fn moment(&self, nanos: i64, offset_minutes: i64) -> Result<Moment, BadMoment> {
        let day_exists = (1..=12).contains(&self.month)
            && (1..=days_in(self.year, self.month)).contains(&self.day);
        // 60 is a leap second.
        if !day_exists || self.hour > 23 || self.minute > 59 || self.second > 60 {
            return Err(BadMoment::Calendar);
        }
        let minutes = (self.days() * 24 + self.hour) * 60 + self.minute - offset_minutes;
        let seconds = i128::from(minutes * 60 + self.second);
        let since_1970 = seconds * NANOS_PER_SEC + i128::from(nanos);
        if since_1970 < 0 {
            return Err(BadMoment::Early);
        }
        moment(u64::try_from(since_1970).map_err(|_| BadMoment::Late)?)
    }

    /// Days since the first of January 1970.
    fn days(&self) -> i64 {
        /// Days before each month of a common year.
        const BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let month = usize::try_from(self.month - 1).unwrap_or(0);
        let leap_day = i64::from(self.month > 2 && is_leap(self.year));
        days_before(self.year) - days_before(1970) + BEFORE[month] + leap_day + self.day - 1
    }
}

/// Days from the year 0 to the first of January of `year`.
const fn days_before(year: i64) -> i64 {
    let last = year - 1;
    365 * year + last.div_euclid(4) - last.div_euclid(100) + last.div_euclid(400)
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// === writing ===

/// A number of seconds with as many decimals as it needs: `1431857103`, `0.3`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(
    /// Nanoseconds.
    pub(crate) u64,
);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        write!(f, "{whole}{}", Fraction(nanos))
    }
}

/// A part of a second in nanoseconds, as its point and decimals: nothing, `.3`, `.000000001`.
struct Fraction(u64);

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut fraction, mut decimals) = (self.0, DECIMALS);
        if fraction == 0 {
            return Ok(());
        }
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            decimals -= 1;
        }
        write!(f, ".{fraction:0decimals$}")
    }
}

/// A moment in UTC as RFC 3339 has it: `2015-05-17T10:05:03Z`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Utc(
    /// The moment.
    pub(crate) Moment,
);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let seconds = nanos / 1_000_000_000;
        let (mut day, in_day) = (seconds / 86_400, seconds % 86_400);
        let (mut year, mut month) = (1970, 1);
        let days_of = |year| if is_leap(year) { 366 } else { 365 };
        while day >= days_of(year) {
            day -= days_of(year);
            year += 1;
        }
        let month_days = |month| u64::try_from(days_in(year, month)).unwrap_or(31);
        while day >= month_days(month) {
            day -= month_days(month);
            month += 1;
        }
        let (hour, minute) = (in_day / 3600, in_day / 60 % 60);
        write!(
            f,
            "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{:02}{}Z",
            day + 1,
            in_day % 60,
            Fraction(nanos % 1_000_000_000),
        )
    }
}

// === impl BadMoment ===

impl fmt::Display for BadMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadMoment::Form => "the time is not in the form that is expected",
            BadMoment::Calendar => "there is no such day or time",
            BadMoment::Early => "the time is before 1970",
            BadMoment::Late => "the time is after 2500-01-01",
            BadMoment::Fine => "the time is finer than a nanosecond",
        })
    }
}

impl std::error::Error for BadMoment {}

#[cfg(test)]
mod tests;
