//! The scripts, and the calls that run them.

mod text;

use bytes::BytesMut;
use tollgate_core::Key;

use crate::keys;
use crate::resp;
use crate::script_request::{General, Plain, Rate};
pub(crate) use text::{ClockOf, Scripts, look};

/// The most limits in one call of the script for plain requests.
pub(crate) const RATES_MAX: usize = 255;

/// Which script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Plain,
    General,
}

/// Under which names one connection's server knows the scripts, and what keys begin with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    pub(crate) prefix: String,
    pub(crate) plain: Vec<u8>,
    pub(crate) general: Vec<u8>,
    /// The moment that the scripts take for now, in microseconds: under test only.
    #[cfg(test)]
    pub(crate) now: Option<std::sync::Arc<std::sync::atomic::AtomicU64>>,
}

// === impl Caller ===

impl Caller {
    /// Writes one call that decides on all these requests.
    ///
    /// Those that lease come last.
    pub(crate) fn call_plain(&self, out: &mut BytesMut, plain: &[Plain]) {
        let mut rates: Vec<Rate> = Vec::new();
        let mut requests = BytesMut::with_capacity(9 * plain.len());
        for one in plain {
            let known = rates.iter().position(|rate| *rate == one.rate);
            let place = known.unwrap_or_else(|| {
                rates.push(one.rate);
                rates.len() - 1
            });
            one.put(&mut requests, count(place + 1));
        }
        let mut limits = BytesMut::with_capacity(2 + 14 * rates.len());
        let leasing = plain.iter().filter(|one| one.is_leasing()).count();
        limits.extend_from_slice(&[count(rates.len()), count(plain.len() - leasing)]);
        rates.iter().for_each(|rate| rate.put(&mut limits));
        let keys = plain.iter().map(|one| one.key);
        self.call(out, Which::Plain, keys, &[&limits, &requests]);
    }

    /// Writes one call that decides on all these requests.
    pub(crate) fn call_general(&self, out: &mut BytesMut, requests: &[&General]) {
        let keys: Vec<Key> = requests
            .iter()
            .flat_map(|one| one.keys.iter().copied())
            .collect();
        let packed: Vec<&[u8]> = requests.iter().map(|one| &one.packed[..]).collect();
        self.call(out, Which::General, keys.into_iter(), &packed);
    }

    fn call(
        &self,
        out: &mut BytesMut,
        which: Which,
        keys: impl ExactSizeIterator<Item = Key>,
        requests: &[&[u8]],
    ) {
        let name = match which {
            Which::Plain => &self.plain,
            Which::General => &self.general,
        };
        resp::command(out, 4 + keys.len() + self.times());
        resp::word(out, b"EVALSHA");
        resp::word(out, name);
        resp::number(out, u64::try_from(keys.len()).unwrap_or(u64::MAX));
        for key in keys {
            resp::word_of(out, &[self.prefix.as_bytes(), &keys::name(key)]);
        }
        resp::word_of(out, requests);
        self.tell_time(out);
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "under test there is something to tell")]
    const fn times(&self) -> usize {
        0
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "under test there is something to tell")]
    const fn tell_time(&self, _out: &mut BytesMut) {}

    #[cfg(test)]
    fn times(&self) -> usize {
        if self.now.is_some() { 2 } else { 0 }
    }

    #[cfg(test)]
    fn tell_time(&self, out: &mut BytesMut) {
        if let Some(now) = &self.now {
            let now = now.load(std::sync::atomic::Ordering::SeqCst);
            resp::number(out, now / 1_000_000);
            resp::number(out, now % 1_000_000);
        }
    }
}

/// A count that is known to be at most [`RATES_MAX`].
fn count(number: usize) -> u8 {
    u8::try_from(number).expect("a batch has at most 255 questions")
}

const _: () = assert!(crate::config::BATCH_MAX <= RATES_MAX);
