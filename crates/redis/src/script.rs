//! The scripts, and the calls that run them.

mod text;

use std::sync::atomic::Ordering;

use bytes::BytesMut;
use tollgate_core::Key;

use crate::environment::{Environment, RedisTime};
use crate::keys;
use crate::resp;
use crate::script_request::{General, PerScript, Plain, Rate, ScriptKind};
pub(crate) use text::{ClockOf, inspection_script, scripts};

/// The most limits in one call of the plain script.
pub(crate) const RATES_MAX: usize = 255;

/// The names of the scripts on one connection's server, and the prefix of keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    pub(crate) prefix: String,
    pub(crate) scripts: PerScript<Vec<u8>>,
    /// The time for the scripts, in place of Redis's clock.
    pub(crate) redis_time: Option<RedisTime>,
}

// === impl Caller ===

impl Caller {
    pub(crate) fn new(prefix: &str, environment: &Environment) -> Caller {
        Caller {
            prefix: prefix.to_owned(),
            redis_time: environment.redis_time.clone(),
            ..Caller::default()
        }
    }

    /// Writes one call that decides all these requests.
    ///
    /// Those that lease must come last. Over several slots, only the first key is declared.
    pub(crate) fn call_plain(&self, out: &mut BytesMut, plain: &[Plain], spans_slots: bool) {
        let mut rates: Vec<Rate> = Vec::new();
        let mut requests = BytesMut::with_capacity(9 * plain.len());
        for one in plain {
            let known = rates.iter().position(|rate| *rate == one.rate);
            let index = known.unwrap_or_else(|| {
                rates.push(one.rate);
                rates.len() - 1
            });
            one.put(&mut requests, count(index + 1));
        }
        let mut limits = BytesMut::with_capacity(2 + 14 * rates.len());
        let leasing = plain.iter().filter(|one| one.is_leasing()).count();
        limits.extend_from_slice(&[count(rates.len()), count(plain.len() - leasing)]);
        rates.iter().for_each(|rate| rate.put(&mut limits));
        let keys: Vec<Key> = plain.iter().map(|one| one.key).collect();
        let keys = (&keys[..], spans_slots);
        self.call(out, ScriptKind::Plain, keys, &[&limits, &requests]);
    }

    /// Writes one call that decides all these requests, which are for the same script.
    pub(crate) fn call_general(
        &self,
        out: &mut BytesMut,
        requests: &[&General],
        spans_slots: bool,
    ) {
        let script = requests
            .first()
            .map_or(ScriptKind::General, |one| one.script);
        let keys: Vec<Key> = requests
            .iter()
            .flat_map(|one| one.keys.iter().copied())
            .collect();
        let packed: Vec<&[u8]> = requests.iter().map(|one| &one.packed[..]).collect();
        self.call(out, script, (&keys, spans_slots), &packed);
    }

    /// Writes an `EVALSHA` of one script with packed requests and their keys. If these span several
    /// slots, only the first one is declared.
    fn call(
        &self,
        out: &mut BytesMut,
        which: ScriptKind,
        (keys, spans_slots): (&[Key], bool),
        requests: &[&[u8]],
    ) {
        let (declared, undeclared) = keys.split_at(if spans_slots { 1 } else { keys.len() });
        resp::command(out, 4 + keys.len() + self.time_arguments());
        resp::word(out, b"EVALSHA");
        resp::word(out, &self.scripts[which.index()]);
        resp::number(out, u64::try_from(declared.len()).unwrap_or(u64::MAX));
        let put_key = |out: &mut BytesMut, key: &Key| {
            resp::word_of(out, &[self.prefix.as_bytes(), &keys::name(*key)]);
        };
        declared.iter().for_each(|key| put_key(out, key));
        resp::word_of(out, requests);
        self.put_time(out);
        undeclared.iter().for_each(|key| put_key(out, key));
    }

    /// The number of arguments for the time.
    const fn time_arguments(&self) -> usize {
        if self.redis_time.is_some() { 2 } else { 0 }
    }

    fn put_time(&self, out: &mut BytesMut) {
        if let Some(time) = &self.redis_time {
            let now = time.load(Ordering::SeqCst);
            resp::number(out, now / 1_000_000);
            resp::number(out, now % 1_000_000);
        }
    }
}

/// A count that is known to be at most [`RATES_MAX`].
fn count(number: usize) -> u8 {
    u8::try_from(number).expect("a batch has at most 255 requests")
}

const _: () = assert!(crate::config::BATCH_MAX <= RATES_MAX);
