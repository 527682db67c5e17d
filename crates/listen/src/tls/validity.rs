//! From when to when a certificate is valid.
//!
//! The TLS library checks this for certificates of peers and does not report it for our own, so
//! these few fields of X.509 (RFC 5280, section 4.1) are read here, from DER.

/// The tag of an integer.
const INTEGER: u8 = 0x02;
/// The tag of a sequence.
const SEQUENCE: u8 = 0x30;
/// The tag of the version, which is left out for version 1.
const VERSION: u8 = 0xa0;
/// The tag of a time with two digits of the year.
const UTC_TIME: u8 = 0x17;
/// The tag of a time with four digits of the year.
const GENERALIZED_TIME: u8 = 0x18;
/// The most bytes that a length may have after its first.
const LENGTH_BYTES_MAX: usize = 4;

/// The first and the last second at which certificates are valid, since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Before this second, the certificate is not valid yet.
    pub not_before: u64,
    /// After this second, it has expired.
    pub not_after: u64,
}

/// Reads one DER value after the other.
struct Der<'d>(&'d [u8]);

// === impl Validity ===

impl Validity {
    /// That of one certificate; `None` if it is malformed.
    pub(crate) fn read(certificate: &[u8]) -> Option<Validity> {
        let mut outer = Der(Der(certificate).expect(SEQUENCE)?);
        let mut fields = Der(outer.expect(SEQUENCE)?);
        if fields.0.first() == Some(&VERSION) {
            fields.expect(VERSION)?;
        }
        let _serial_number = fields.expect(INTEGER)?;
        let _signature_algorithm = fields.expect(SEQUENCE)?;
        let _issuer = fields.expect(SEQUENCE)?;
        let mut validity = Der(fields.expect(SEQUENCE)?);
        Some(Validity {
            not_before: validity.time()?,
            not_after: validity.time()?,
        })
    }

    /// When this and another certificate are both valid.
    pub(crate) fn both(self, other: Validity) -> Validity {
        Validity {
            not_before: self.not_before.max(other.not_before),
            not_after: self.not_after.min(other.not_after),
        }
    }
}

// === impl Der ===

impl<'d> Der<'d> {
    /// The content of the next value, which must have this tag.
    fn expect(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }

    /// The tag and the content of the next value.
    fn next(&mut self) -> Option<(u8, &'d [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..0x80 => (usize::from(first), rest),
            _ => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                if bytes.len() > LENGTH_BYTES_MAX {
                    return None;
                }
                let length = bytes
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                (length, rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The next value, a time.
    fn time(&mut self) -> Option<u64> {
        let (tag, text) = self.next()?;
        let digits = text.strip_suffix(b"Z")?;
        let pairs: Vec<u64> = digits.chunks(2).map(pair).collect::<Option<_>>()?;
        match (tag, &*pairs) {
            (UTC_TIME, [year, rest @ ..]) => {
                let century = if *year < 50 { 2000 } else { 1900 };
                seconds(century + year, rest)
            }
            (GENERALIZED_TIME, [century, year, rest @ ..]) => seconds(century * 100 + year, rest),
            _ => None,
        }
    }
}

/// The value of two digits.
fn pair(digits: &[u8]) -> Option<u64> {
    let &[tens, ones] = digits else { return None };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// Seconds since 1970, and 0 before; the rest is the month, day, hour, minute and second.
fn seconds(year: u64, rest: &[u64]) -> Option<u64> {
    let &[
        month @ 1..=12,
        day @ 1..=31,
        hour @ 0..=23,
        minute @ 0..=59,
        second @ 0..=60,
    ] = rest
    else {
        return None;
    };
    let days = (days_to_month(year, month) + day - 1).checked_sub(days_to_month(1970, 1));
    let Some(days) = days else { return Some(0) };
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from the first of January of the year 0 to the first of a month.
fn days_to_month(year: u64, month: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // Leap days before this year; the year 0 is one.
    let leap_days = match year.checked_sub(1) {
        Some(last) => last / 4 - last / 100 + last / 400 + 1,
        None => 0,
    };
    let before = usize::try_from(month - 1)
        .ok()
        .and_then(|index| BEFORE.get(index));
    year * 365 + leap_days + before.unwrap_or(&0) + u64::from(is_leap && month > 2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn value(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82], &length[..], content].concat()
    }

    /// A certificate without what comes after its validity.
    fn certificate(version: &[u8], times: [(u8, &str); 2]) -> Vec<u8> {
        let times = times
            .map(|(tag, text)| value(tag, text.as_bytes()))
            .concat();
        let fields = [
            version,
            &[INTEGER, 1, 7],
            &value(SEQUENCE, b"algorithm"),
            &value(SEQUENCE, b"issuer"),
            &value(SEQUENCE, &times),
        ];
        value(SEQUENCE, &value(SEQUENCE, &fields.concat()))
    }

    fn read(times: [(u8, &str); 2]) -> Option<Validity> {
        Validity::read(&certificate(&[VERSION, 3, INTEGER, 1, 2], times))
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        let times = [
            (UTC_TIME, "700101000001Z"),
            (GENERALIZED_TIME, "20260228235959Z"),
        ];
        let expected = Validity {
            not_before: 1,
            // `date -u -d 2026-02-28T23:59:59Z +%s`
            not_after: 1_772_323_199,
        };
        assert_eq!(read(times), Some(expected));
        assert_eq!(Validity::read(&certificate(&[], times)), Some(expected));
        let times = [
            (UTC_TIME, "500101000000Z"),
            (GENERALIZED_TIME, "99991231235959Z"),
        ];
        let expected = Validity {
            not_before: 0,
            not_after: 253_402_300_799,
        };
        assert_eq!(read(times), Some(expected));
        let leap = [(UTC_TIME, "240229120000Z"), (UTC_TIME, "000301000000Z")];
        let expected = Validity {
            not_before: 1_709_208_000,
            not_after: 951_868_800,
        };
        assert_eq!(read(leap), Some(expected));
    }

    #[test]
    fn anything_else_is_malformed_and_nothing_panics() {
        let good = (UTC_TIME, "260101000000Z");
        for bad in [
            "",
            "Z",
            "2601010000Z",
            "260101000000",
            "26010100000xZ",
            "261301000000Z",
            "260100000000Z",
            "260101240000Z",
            "26010100000Z",
            "é0101000000Z",
        ] {
            for tag in [UTC_TIME, GENERALIZED_TIME, INTEGER] {
                assert_eq!(read([good, (tag, bad)]), None, "{tag} {bad}");
            }
        }
        let whole = certificate(&[], [good, good]);
        for length in 0..whole.len() {
            assert_eq!(Validity::read(&whole[..length]), None, "{length}");
            for byte in [0, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[length] = byte;
                let _whatever_it_is = Validity::read(&changed);
            }
        }
        assert_eq!(Validity::read(&[0x30, 0xff]), None);
        assert_eq!(
            Validity::read(&[0x30, 0x88, 255, 255, 255, 255, 255, 255, 255, 255]),
            None
        );
    }

    #[test]
    fn a_chain_is_valid_while_all_of_it_is() {
        let [one, other] = [(5, 9), (7, 8)].map(|(not_before, not_after)| Validity {
            not_before,
            not_after,
        });
        assert_eq!(one.both(other), other);
        assert_eq!(other.both(one), other);
    }
}
