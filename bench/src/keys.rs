//! The keys: of three kinds, drawn in advance, the same for every contender.

use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Coprime to every number of keys in use, so that neighbours in rank are not neighbours in number.
const STRIDE: u64 = 1_000_000_007;
/// The shortest sequence: what is drawn for few keys is still a random order.
const DRAWN_MIN: u64 = 1 << 16;
/// The longest sequence of a thread.
const DRAWN_MAX: u64 = 1 << 23;

/// The type of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    U64,
    String,
    Ip,
}

/// The distribution of requests over keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    Uniform,
    /// The k-th key has requests in proportion to 1 / k.
    Zipf,
}

/// Something that requests are counted by.
pub(crate) trait BenchKey: Hash + Eq + Clone + Send + Sync + 'static {
    /// The key of the client with this number.
    fn of(id: u64) -> Self;
}

/// A small generator (SplitMix64): the same seed always gives the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// For each thread, who asks one after the other.
#[derive(Debug)]
pub(crate) struct Sequences<K>(pub(crate) Vec<Vec<K>>);

// === impl KeyKind ===

impl KeyKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            KeyKind::U64 => "u64",
            KeyKind::String => "string",
            KeyKind::Ip => "ip",
        }
    }
}

// === impl Distribution ===

impl Distribution {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipf => "zipf(1.0)",
        }
    }
}

// === impl BenchKey ===

impl BenchKey for u64 {
    fn of(id: u64) -> u64 {
        id
    }
}

impl BenchKey for String {
    fn of(id: u64) -> String {
        format!("customer-{id:08}")
    }
}

impl BenchKey for IpAddr {
    /// Every fourth client has an IPv6 address.
    fn of(id: u64) -> IpAddr {
        let mixed = id.wrapping_mul(0x9E37_79B1) & 0xFFFF_FFFF;
        if id.is_multiple_of(4) {
            let network = 0x2001_0DB8_u128 << 96;
            return Ipv6Addr::from(network | u128::from(mixed) << 64).into();
        }
        Ipv4Addr::from(u32::try_from(mixed).unwrap_or(0)).into()
    }
}

// === impl Random ===

impl Random {
    pub(crate) const fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.word()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }
}

// === impl Sequences ===

impl<K: BenchKey> Sequences<K> {
    pub(crate) fn draw(keys: u64, distribution: Distribution, threads: usize) -> Sequences<K> {
        let length = keys.next_power_of_two().clamp(DRAWN_MIN, DRAWN_MAX);
        let mut seeds = Random::new(20_260_825);
        let ranks: Box<dyn Fn(&mut Random) -> u64> = match distribution {
            Distribution::Uniform => Box::new(move |random| random.below(keys)),
            Distribution::Zipf => zipf(keys),
        };
        let one = |_| {
            let mut random = Random::new(seeds.word());
            let draw = |_| K::of(spread(ranks(&mut random), keys));
            (0..length).map(draw).collect()
        };
        Sequences((0..threads).map(one).collect())
    }
}

fn spread(rank: u64, keys: u64) -> u64 {
    let wide = u128::from(rank) * u128::from(STRIDE) % u128::from(keys);
    u64::try_from(wide).unwrap_or(0)
}

/// Draws ranks from 0 with weights 1, 1/2, 1/3, ...
#[expect(
    clippy::as_conversions,
    reason = "ranks are far below 2^53, where `as` is exact"
)]
fn zipf(keys: u64) -> Box<dyn Fn(&mut Random) -> u64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    Box::new(move |random| {
        let drawn = (random.word() >> 11) as f64 / (1_u64 << 53) as f64 * sum;
        let rank = sums.partition_point(|reached| *reached <= drawn);
        u64::try_from(rank).unwrap_or(0).min(keys - 1)
    })
}
