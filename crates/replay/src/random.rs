//! Random numbers that follow from a seed: the same on every machine, in every run.
//!
//! A published crate would do, but none promises that its numbers stay the same between versions,
//! and a seed that is written down should mean the same traffic next year.

/// `SplitMix64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Random(u64);

/// The finalizer of `SplitMix64`: every bit of the result depends on every bit of the number.
pub(crate) const fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(INCREMENT);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;
/// The natural logarithm of 2, in units of 2^-32.
const LN_2: u128 = 2_977_044_472;

// === impl Random ===

impl Random {
    /// The numbers of `seed` for one of several uses, each of which has its own.
    pub(crate) const fn new(seed: u64, of: u64) -> Random {
        Random(mix(mix(seed) ^ of))
    }

    pub(crate) const fn word(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(INCREMENT);
        word
    }

    /// A number below `end`, each with equal chances; 0 if there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The high half of a product is even to within 2^-64 times `end`.
        let product = u128::from(self.word()) * u128::from(end);
        u64::try_from(product >> 64).unwrap_or_default()
    }

    /// A number of the exponential distribution with mean 1, in units of 2^-32.
    ///
    /// It is the logarithm of an even number, computed in integers, so that it is the same on every
    /// machine: the logarithms of floats differ in their last bits.
    pub(crate) fn exponential(&mut self) -> u64 {
        let word = self.word().max(1);
        let zeros = word.leading_zeros();
        // The word is 2^(63 - zeros) times a number from 1 to 2, here with 63 bits after the point.
        let mut rest = u128::from(word << zeros);
        let mut logarithm = 0_u64;
        for _ in 0..32 {
            // Squaring doubles the logarithm; from 2 on, its next bit is 1.
            rest = (rest * rest) >> 63;
            let bit = rest >> 64;
            rest >>= bit;
            logarithm = logarithm << 1 | u64::from(bit != 0);
        }
        let halvings = (u64::from(zeros + 1) << 32) - logarithm;
        let natural = (u128::from(halvings) * LN_2) >> 32;
        u64::try_from(natural).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_from_the_seed_and_the_use() {
        let words = |seed, of| {
            let mut random = Random::new(seed, of);
            [random.word(), random.word(), random.word()]
        };
        assert_eq!(words(7, 1), words(7, 1));
        assert_ne!(words(7, 1), words(7, 2));
        assert_ne!(words(7, 1), words(8, 1));
        let mut random = Random(0);
        // The first numbers of the reference implementation for the seed 0.
        assert_eq!(random.word(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.word(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn draws_are_even_and_exponential() {
        let mut random = Random::new(1, 1);
        let mut drawn = [0_u32; 10];
        let (mut sum, mut beyond_2) = (0, 0);
        for _ in 0..100_000 {
            drawn[usize::try_from(random.below(10)).unwrap_or(99)] += 1;
            let drawn = random.exponential();
            sum += drawn;
            beyond_2 += u32::from(drawn > 2 << 32);
        }
        assert!(
            drawn.iter().all(|count| (9_700..10_300).contains(count)),
            "{drawn:?}"
        );
        let mean_in_percent = (sum >> 32) / 1_000;
        assert!((99..=101).contains(&mean_in_percent), "{mean_in_percent}");
        // e^-2 of all numbers.
        assert!((13_200..13_900).contains(&beyond_2), "{beyond_2}");
        assert_eq!(random.below(0), 0);
    }
}
