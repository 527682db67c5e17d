//! The names of reservations, which cannot be guessed.

use std::fmt;
use std::str::FromStr;

use ring::rand::{SecureRandom, SystemRandom};

/// The hexadecimal digits of an id.
const DIGITS: usize = 32;

/// The id of a reservation: 128 random bits; 112 if a shared store keeps it. A client that has it
/// can settle the reservation, so it must not be guessable.
///
/// As text: 32 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReservationId(u128);

/// A text that is not a [`ReservationId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidReservationId;

/// The system has no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRandomness;

// === impl ReservationId ===

impl ReservationId {
    /// A new one.
    pub(crate) fn random() -> Result<ReservationId, NoRandomness> {
        let mut bytes = [0; 16];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_unspecified| NoRandomness)?;
        Ok(ReservationId(u128::from_le_bytes(bytes)))
    }

    /// The id of a reservation that a shared store keeps under a key of these bits.
    pub(crate) const fn from_bits(bits: u128) -> ReservationId {
        ReservationId(bits)
    }

    pub(crate) const fn bits(self) -> u128 {
        self.0
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$x}", self.0)
    }
}

impl fmt::Debug for ReservationId {
    /// Not the id: a log is read by more people than may settle a reservation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReservationId(..)")
    }
}

impl FromStr for ReservationId {
    type Err = InvalidReservationId;

    fn from_str(text: &str) -> Result<ReservationId, InvalidReservationId> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != DIGITS || !text.bytes().all(is_digit) {
            return Err(InvalidReservationId);
        }
        let bits = u128::from_str_radix(text, 16);
        bits.map(ReservationId)
            .map_err(|_invalid| InvalidReservationId)
    }
}

// === impl InvalidReservationId ===

impl fmt::Display for InvalidReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the id of a reservation has {DIGITS} hexadecimal digits in lower case"
        )
    }
}

impl std::error::Error for InvalidReservationId {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_in_no_other_way() {
        for bits in [0, 1, 0xABC, u128::MAX] {
            let id = ReservationId::from_bits(bits);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let id = "00000000000000000000000000000abc";
        assert_eq!(id.parse(), Ok(ReservationId::from_bits(0xABC)));
        for wrong in [
            "",
            "abc",
            "00000000000000000000000000000ABC",
            "+0000000000000000000000000000abc",
            "00000000000000000000000000000abcd",
            "0000000000000000000000000000ab\u{e9}",
            " 0000000000000000000000000000abc",
        ] {
            assert_eq!(wrong.parse::<ReservationId>(), Err(InvalidReservationId));
        }
    }

    #[test]
    fn no_two_ids_are_equal_and_none_is_logged() {
        let [one, other] = [0, 1].map(|_| ReservationId::random().expect("the system has some"));
        assert_ne!(one, other);
        assert!(!format!("{one:?}").contains(&one.to_string()));
    }
}
