//! Exact fractions.

use std::cmp::Ordering;

/// `num / den`, exact, `den` above zero, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    num: i128,
    den: i128,
}

// === impl Ratio ===

impl Ratio {
    /// Nothing.
    pub const ZERO: Ratio = Ratio { num: 0, den: 1 };

    /// `num / den`.
    ///
    /// # Panics
    ///
    /// If `den` is zero.
    pub fn new(num: i128, den: i128) -> Ratio {
        assert!(den > 0, "a fraction of nothing");
        let divisor = gcd(num.unsigned_abs(), den.unsigned_abs());
        let divisor = i128::try_from(divisor).expect("divides den");
        Ratio {
            num: num / divisor,
            den: den / divisor,
        }
    }

    /// A whole number.
    pub fn whole(number: impl Into<i128>) -> Ratio {
        Ratio {
            num: number.into(),
            den: 1,
        }
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Ratio) -> Ratio {
        let divisor = gcd(self.den.unsigned_abs(), other.den.unsigned_abs());
        let divisor = i128::try_from(divisor).expect("divides den");
        let (left, right) = (other.den / divisor, self.den / divisor);
        Ratio::new(self.num * left + other.num * right, self.den * left)
    }

    /// The difference, or nothing if that were negative.
    #[must_use]
    pub fn less(self, other: Ratio) -> Ratio {
        let minus = Ratio {
            num: -other.num,
            den: other.den,
        };
        self.plus(minus).max(Ratio::ZERO)
    }

    /// The product with a whole number.
    #[must_use]
    pub fn times(self, factor: i128) -> Ratio {
        let divisor = gcd(factor.unsigned_abs(), self.den.unsigned_abs());
        let divisor = i128::try_from(divisor).expect("divides den");
        Ratio::new(self.num * (factor / divisor), self.den / divisor)
    }

    /// Rounded down to a whole number.
    pub const fn floor(self) -> i128 {
        self.num.div_euclid(self.den)
    }

    /// Rounded up to a whole number.
    pub const fn ceil(self) -> i128 {
        -(-self.num).div_euclid(self.den)
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> Ordering {
        let whole = self.floor().cmp(&other.floor());
        // Only the parts below one are multiplied, so that nothing overflows.
        let (part, other_part) = (
            self.num.rem_euclid(self.den),
            other.num.rem_euclid(other.den),
        );
        whole.then_with(|| (part * other.den).cmp(&(other_part * self.den)))
    }
}

const fn gcd(a: u128, b: u128) -> u128 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    if a == 0 { 1 } else { a }
}
