//! What is asked of Redis: requests, packed for the scripts.
//!
//! Numbers are unsigned, the highest byte first. To `bucket.lua`: the number of limits (1 byte); of
//! each its kind (1), interval (6) and the interval of its whole capacity (7); then of each request
//! the limit's place from 1 on (1), the units that must fit (4) and those to be taken (4). To
//! `general.lua`: of each request the number of lines (1); of each line its kind (1), segments (1),
//! role (1), capacity (4), span (6), units that must fit (5), units to be taken (5), units to be
//! charged for a refusal (5) and units to be given back (5).

use bytes::{BufMut, BytesMut};
use tollgate_core::{Bill, Charge, Cost, Enforcement, Key, Line, OnDenial};

use crate::fit::{Fitted, InvalidForRedis, Kind};

/// Amounts are capped at this in a question: more than any limit has, and exact in the scripts.
const UNITS_MAX: u64 = (1 << 40) - 1;
/// The role of a line that only gives back.
const UNJUDGED: u8 = 3;

/// One request, as the scripts read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// One bucket: for `bucket.lua`.
    Bucket(Bucket),
    /// Anything: for `general.lua`.
    General(General),
}

/// Units of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) key: Key,
    pub(crate) rate: Rate,
    judged: u32,
    taken: u32,
}

/// What is the same for every request to the buckets of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    kind: Kind,
    /// The time of one unit, and of all that fits at once, in microseconds.
    span: u64,
    room: u64,
}

/// A request's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct General {
    /// One for each line.
    pub(crate) keys: Vec<Key>,
    pub(crate) packed: Vec<u8>,
}

// === impl Question ===

impl Question {
    /// One charge.
    pub(crate) fn of_one(charge: &Charge<'_>, fitted: &Fitted) -> Question {
        Bucket::new(charge, fitted).map_or_else(
            || {
                let bill = Bill::new(&[*charge]).expect("one charge is not too many");
                Question::of(&bill, &[*fitted])
            },
            Question::Bucket,
        )
    }

    /// All lines of a bill, whose limits read as `fitted`.
    pub(crate) fn of(bill: &Bill<'_>, fitted: &[Fitted]) -> Question {
        let lines = bill.lines();
        let mut packed = Vec::with_capacity(1 + 33 * lines.len());
        packed.put_u8(u8::try_from(lines.len()).expect("CHARGES_MAX is below 256"));
        for (line, fitted) in lines.iter().zip(fitted) {
            put_line(&mut packed, line, fitted);
        }
        let keys = lines.iter().map(|line| line.charge.key);
        Question::General(General {
            keys: keys.collect(),
            packed,
        })
    }

    pub(crate) fn keys(&self) -> &[Key] {
        match self {
            Question::Bucket(bucket) => std::slice::from_ref(&bucket.key),
            Question::General(general) => &general.keys,
        }
    }
}

fn put_line(packed: &mut Vec<u8>, line: &Line<'_>, fitted: &Fitted) {
    let charge = &line.charge;
    let role = match (line.judged(), charge.enforcement) {
        (None, _) => UNJUDGED,
        (_, Enforcement::Enforce) => 0,
        (_, Enforcement::Shadow) => 1,
        (_, Enforcement::Quota) => 2,
    };
    let penalty = match charge.on_denial {
        OnDenial::Keep => 0,
        OnDenial::Charge => line.take(),
    };
    packed.put_slice(&[fitted.kind.byte(), fitted.segments, role]);
    packed.put_u32(fitted.limit.capacity());
    packed.put_uint(fitted.span, 6);
    for units in [
        line.judged().unwrap_or(0),
        line.take(),
        penalty,
        line.refund(),
    ] {
        packed.put_uint(units.min(UNITS_MAX), 5);
    }
}

// === impl Bucket ===

impl Bucket {
    /// `None` if the question needs the general script.
    fn new(charge: &Charge<'_>, fitted: &Fitted) -> Option<Bucket> {
        let (judged, taken) = match charge.cost {
            Cost::Take(units) => (units.max(1), units),
            Cost::Peek(units) => (units.max(1), 0),
            Cost::Refund(_) => return None,
        };
        let capacity = fitted.limit.capacity();
        let is_plain = fitted.kind.is_bucket()
            && judged <= u64::from(capacity)
            && charge.on_own_denial() == OnDenial::Keep;
        is_plain.then(|| Bucket {
            key: charge.key,
            rate: Rate {
                kind: fitted.kind,
                span: fitted.span,
                room: fitted.span * u64::from(capacity),
            },
            judged: u32::try_from(judged).unwrap_or(u32::MAX),
            taken: u32::try_from(taken).unwrap_or(u32::MAX),
        })
    }

    /// The same question for the general script.
    pub(crate) fn generalised(charge: &Charge<'_>, fitted: &Fitted) -> Question {
        let bill = Bill::new(&[*charge]).expect("one charge is not too many");
        Question::of(&bill, &[*fitted])
    }

    /// Writes the request; its limit is the one at `place`, counted from 1.
    pub(crate) fn put(&self, packed: &mut BytesMut, place: u8) {
        packed.put_u8(place);
        packed.put_u32(self.judged);
        packed.put_u32(self.taken);
    }
}

// === impl Rate ===

impl Rate {
    pub(crate) fn put(&self, packed: &mut BytesMut) {
        packed.put_u8(self.kind.byte());
        packed.put_uint(self.span, 6);
        packed.put_uint(self.room, 7);
    }
}

/// How the limits of `charges` read in whole microseconds.
pub(crate) fn fitted(charges: &[Charge<'_>]) -> Result<Vec<Fitted>, InvalidForRedis> {
    charges
        .iter()
        .map(|charge| Fitted::new(charge.limit))
        .collect()
}
