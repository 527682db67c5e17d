//! What is asked of Redis: requests, packed for the scripts.
//!
//! Numbers are unsigned, the highest byte first. To `plain.lua`: the number of limits (1 byte) and
//! of requests that lease nothing (1), which come first; of each limit its kind (1), its interval
//! or window (6), and what fits (7): the interval of a bucket's whole capacity, or the units of a
//! window; then of each request the limit's place from 1 on (1), the units that must fit (4) and
//! those to be taken (4), and if it leases, what follows the number of lines below.
//!
//! To the general script: of each request the step (1) and the number of lines (1); of a step that
//! reserves, confirms or leases the name (8) and how long it lasts (5); of one that
//! leases the units spent (5), those wanted (5), the least that is worth it (5) and the name of
//! what is leased (8); of each line
//! its kind (1), segments (1), role (1), capacity (4), of which units for requests with priority
//! that this one leaves (4), span (6), units that must fit (5), those that it leaves included,
//! units to be taken (5), units to be charged for a denial (5) and units to be given back (5); of a
//! step that reserves or confirms, for how many requests they are taken (4), and how many of those
//! that are denied are charged (4).
//!
//! To `reservation.lua`: see `script_request/reservation.rs`. Of reservations that clients settle:
//! see `script_request/settlement.rs`.

mod reservation;
mod settlement;

use bytes::{BufMut, BytesMut};
use tollgate_core::{Bill, Charge, Cost, Enforcement, Key, Limit, Line, OnDenial, Span};

use crate::fit::{FittedLimit, InvalidForRedis, Kind};
use crate::keys;
pub(crate) use settlement::{MEMO_BYTES_MAX, SettledLine};

/// Amounts are capped at this in a request: more than any limit has, and exact in the scripts.
const UNITS_MAX: u64 = (1 << 40) - 1;
/// The role of a line that only gives back.
const UNJUDGED: u8 = 3;

/// One request, as the scripts read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScriptRequest {
    /// One bucket or window aligned to the clock: for `plain.lua`.
    Plain(Plain),
    /// Anything: for the general script. Also what `reservation.lua` does instead, in less time.
    General(General),
}

/// Which script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Which {
    Plain,
    General,
    Reservation,
}

/// Units of one bucket, or of one window aligned to the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) key: Key,
    pub(crate) rate: Rate,
    judged: u32,
    taken: u32,
    leasing: Option<Leasing>,
}

/// What is the same for every request to one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    kind: Kind,
    /// Microseconds: of a bucket the time of one unit, otherwise the window; and what fits at
    /// once, of a bucket as time, of a window in units.
    span: u64,
    room: u64,
}

/// A request's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct General {
    pub(crate) script: Which,
    /// One for each line.
    pub(crate) keys: Vec<Key>,
    pub(crate) packed: Vec<u8>,
    /// How many states the answer tells.
    pub(crate) states: usize,
    /// Whether anything may change in Redis.
    pub(crate) writes: bool,
    /// Whether it confirms or releases what was reserved.
    pub(crate) is_last_step: bool,
}

/// Charges what was spent of the lease `name`, gives back the rest, decides, and leases up to
/// `want` units again, but none if only fewer than `least` can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leasing {
    pub(crate) name: u64,
    /// Microseconds.
    pub(crate) lasts: u64,
    pub(crate) spent: u64,
    pub(crate) want: u64,
    pub(crate) least: u64,
    /// The name of what is leased again. If something is leased under it already, the
    /// reply was lost, and it is returned.
    pub(crate) next: u64,
}

/// What is done with lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// All of the request.
    Decide,
    /// Holds the units of lines that allow, for so many microseconds: for as many requests as they
    /// fit for.
    Reserve { name: u64, lasts: u64 },
    /// Charges what was reserved, for as many requests as are allowed, and gives back the rest;
    /// charges the lines that ask for it for those that are denied. For none of either, it only
    /// gives back.
    Confirm { name: u64 },
    /// Leases.
    Lease(Leasing),
}

/// One line of a step, and for how many requests it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLine<'l, 'c> {
    pub(crate) line: &'l Line<'c>,
    pub(crate) fitted: &'l FittedLimit,
    /// Requests whose units are reserved, or confirmed.
    pub(crate) times: u32,
    /// Requests that are denied, and charged for it.
    pub(crate) denied: u32,
}

// === impl ScriptRequest ===

impl ScriptRequest {
    /// One charge.
    pub(crate) fn of_one(charge: &Charge<'_>, fitted: &FittedLimit) -> ScriptRequest {
        Plain::new(charge, fitted).map_or_else(
            || Plain::general_request(charge, fitted),
            ScriptRequest::Plain,
        )
    }

    /// All lines of a bill, whose limits read as `fitted`.
    pub(crate) fn of(bill: &Bill<'_>, fitted: &[FittedLimit]) -> ScriptRequest {
        let lines: Vec<_> = bill.lines().iter().zip(fitted).collect();
        ScriptRequest::step(Step::Decide, &lines)
    }

    /// One step with lines of one request.
    pub(crate) fn step(step: Step, lines: &[(&Line<'_>, &FittedLimit)]) -> ScriptRequest {
        let counted = lines.iter().map(|(line, fitted)| StepLine {
            line,
            fitted,
            times: 1,
            denied: 0,
        });
        ScriptRequest::of_step(step, &counted.collect::<Vec<_>>())
    }

    /// One step with lines of several requests.
    pub(crate) fn of_step(step: Step, lines: &[StepLine<'_, '_>]) -> ScriptRequest {
        let mut packed = Vec::with_capacity(15 + 45 * lines.len());
        let (number, name, lasts) = match step {
            Step::Decide => (0, 0, 0),
            Step::Reserve { name, lasts } => (1, name, lasts),
            Step::Confirm { name } => (2, name, 0),
            Step::Lease(leasing) => (4, leasing.name, leasing.lasts),
        };
        packed.put_u8(number);
        packed.put_u8(u8::try_from(lines.len()).expect("LINES_MAX is below 256"));
        if step != Step::Decide {
            packed.put_u64(name);
            packed.put_uint(lasts.min(UNITS_MAX), 5);
        }
        if let Step::Lease(leasing) = step {
            leasing.put_units(&mut packed);
        }
        for counted in lines {
            put_line(&mut packed, counted.line, counted.fitted);
            if matches!(step, Step::Reserve { .. } | Step::Confirm { .. }) {
                packed.put_u32(counted.times);
                packed.put_u32(counted.denied);
            }
        }
        let states = match step {
            Step::Decide | Step::Reserve { .. } => lines.len(),
            Step::Confirm { .. } => 0,
            // And the lease.
            Step::Lease(_) => 2,
        };
        let changes = |one: &StepLine<'_, '_>| one.line.take() > 0 || one.line.refund() > 0;
        ScriptRequest::General(General {
            script: Which::General,
            keys: lines.iter().map(|one| one.line.charge.key).collect(),
            packed,
            states,
            writes: step != Step::Decide || lines.iter().any(changes),
            is_last_step: matches!(step, Step::Confirm { .. }),
        })
    }

    /// One charge, and units leased beside it.
    pub(crate) fn with_lease(
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        leasing: Leasing,
    ) -> ScriptRequest {
        match Plain::new(charge, fitted) {
            Some(plain) => ScriptRequest::Plain(Plain {
                leasing: Some(leasing),
                ..plain
            }),
            None => ScriptRequest::general_with_lease(charge, fitted, leasing),
        }
    }

    /// The same request for the general script.
    pub(crate) fn general_with_lease(
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        leasing: Leasing,
    ) -> ScriptRequest {
        let bill = Bill::new(&[*charge]).expect("one charge is not too many");
        ScriptRequest::step(Step::Lease(leasing), &[(&bill.lines()[0], fitted)])
    }

    /// Whether units are leased by the plain script.
    pub(crate) const fn is_leasing(&self) -> bool {
        match self {
            ScriptRequest::Plain(plain) => plain.is_leasing(),
            ScriptRequest::General(_) => false,
        }
    }

    /// Whether anything may change in Redis: a server that takes no writes still answers the
    /// others.
    pub(crate) const fn writes(&self) -> bool {
        match self {
            ScriptRequest::Plain(plain) => plain.taken > 0 || plain.is_leasing(),
            ScriptRequest::General(general) => general.writes,
        }
    }

    pub(crate) const fn script(&self) -> Which {
        match self {
            ScriptRequest::Plain(_) => Which::Plain,
            ScriptRequest::General(general) => general.script,
        }
    }

    /// Whether it confirms or releases what another request has reserved.
    pub(crate) const fn is_last_step(&self) -> bool {
        match self {
            ScriptRequest::Plain(_) => false,
            ScriptRequest::General(general) => general.is_last_step,
        }
    }

    pub(crate) fn keys(&self) -> &[Key] {
        match self {
            ScriptRequest::Plain(plain) => std::slice::from_ref(&plain.key),
            ScriptRequest::General(general) => &general.keys,
        }
    }
}

/// The units that must fit, those included that the request leaves for others with priority;
/// `None` if it only refunds.
pub(crate) fn units_judged(charge: &Charge<'_>) -> Option<u64> {
    let kept = u64::from(charge.limit.unavailable());
    Some(charge.cost.units_needed()?.saturating_add(kept))
}

/// Packs a line as the general script reads it.
fn put_line(packed: &mut Vec<u8>, line: &Line<'_>, fitted: &FittedLimit) {
    let charge = &line.charge;
    let role = match (line.units_needed(), charge.enforcement) {
        (None, _) => UNJUDGED,
        (_, Enforcement::Enforce) => 0,
        (_, Enforcement::Shadow) => 1,
        (_, Enforcement::Quota) => 2,
    };
    packed.put_slice(&[fitted.kind.byte(), fitted.segments, role]);
    packed.put_u32(fitted.limit.capacity());
    packed.put_u32(fitted.limit.unavailable());
    packed.put_uint(fitted.span, 6);
    for units in [
        line.units_judged().unwrap_or(0),
        line.take(),
        line.penalty(),
        line.refund(),
    ] {
        packed.put_uint(units.min(UNITS_MAX), 5);
    }
}

// === impl Plain ===

impl Plain {
    /// `None` if the request needs the general script.
    fn new(charge: &Charge<'_>, fitted: &FittedLimit) -> Option<Plain> {
        let (judged, taken) = match charge.cost {
            Cost::Take(units) => (units_judged(charge)?, units),
            Cost::Peek(_) => (units_judged(charge)?, 0),
            // A lease that goes back.
            Cost::Refund(0) => (0, 0),
            Cost::Refund(_) => return None,
        };
        let capacity = u64::from(fitted.limit.capacity());
        let is_window = fitted.kind == Kind::FixedClock;
        let is_plain = (is_window || fitted.kind.is_bucket())
            && judged <= capacity
            && charge.on_own_denial() == OnDenial::Keep;
        is_plain.then(|| Plain {
            key: charge.key,
            rate: Rate {
                kind: fitted.kind,
                span: fitted.span,
                room: if is_window {
                    capacity
                } else {
                    fitted.span * capacity
                },
            },
            judged: u32::try_from(judged).unwrap_or(u32::MAX),
            taken: u32::try_from(taken).unwrap_or(u32::MAX),
            leasing: None,
        })
    }

    /// One unit of a key of ours in the slot of `key`, by a limit that forgets it at once: whether
    /// a server decides.
    pub(crate) fn trial(key: Key) -> Plain {
        let limit = Limit::fixed_window(u32::MAX, Span::SECOND).expect("a valid limit");
        let fitted = FittedLimit::new(&limit).expect("a second is whole microseconds");
        let charge = Charge::new(keys::beside(key), &limit, Cost::ONE);
        Plain::new(&charge, &fitted).expect("a window aligned to the clock is plain")
    }

    /// The same request for the general script.
    pub(crate) fn general_request(charge: &Charge<'_>, fitted: &FittedLimit) -> ScriptRequest {
        let bill = Bill::new(&[*charge]).expect("one charge is not too many");
        ScriptRequest::of(&bill, &[*fitted])
    }

    /// Writes the request; its limit is the one at `place`, counted from 1.
    pub(crate) fn put(&self, packed: &mut BytesMut, place: u8) {
        packed.put_u8(place);
        packed.put_u32(self.judged);
        packed.put_u32(self.taken);
        if let Some(leasing) = &self.leasing {
            packed.put_u64(leasing.name);
            packed.put_uint(leasing.lasts.min(UNITS_MAX), 5);
            leasing.put_units(packed);
        }
    }

    pub(crate) const fn is_leasing(&self) -> bool {
        self.leasing.is_some()
    }
}

// === impl Leasing ===

impl Leasing {
    fn put_units(&self, packed: &mut impl BufMut) {
        for units in [self.spent, self.want, self.least] {
            packed.put_uint(units.min(UNITS_MAX), 5);
        }
        packed.put_u64(self.next);
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
pub(crate) fn fit_all(charges: &[Charge<'_>]) -> Result<Vec<FittedLimit>, InvalidForRedis> {
    charges
        .iter()
        .map(|charge| FittedLimit::new(charge.limit))
        .collect()
}
