//! Reservations that clients settle, stored in Redis next to the counters that they have charged.
//!
//! One script call decides a request and stores its reservation; another one removes the
//! reservation and settles every line. So a reservation is settled at most once, on any instance,
//! and completely. For this, all its keys must be in one slot; the key of the reservation is put
//! into the slot of the first. It has 112 random bits, so it cannot be guessed.
//!
//! While that slot migrates to another node of a Cluster, Redis answers `TRYAGAIN` to every call
//! that has a counter and a new key, wherever the counter is. Then one call decides and another one
//! stores the reservation: if that fails, the request is allowed, and stays charged. For its
//! settlement see `settlement/apart.rs`.
//!
//! Redis makes the decision in every mode. An instance's leases are not spent, so the request may
//! be denied while there are unspent units. A limit in mode `write_back` has units that Redis does
//! not know yet, which a refund could concern, so that mode has no reservations. If a reload has
//! changed the mode, this instance first reports what it has counted until then.

mod apart;

use std::fmt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use tokio::time::{Duration, Instant, sleep};
use tollgate_core::{
    Bill, Charge, KeptReservation, Key, Mode, NewReservation, ReserveVerdict, Settled,
    SettledCharge, Settlement, StoreError, Verdict,
};

use crate::caches::RefundGuard;
use crate::cross_slot::crosses_slots;
use crate::fit::{GRAIN, unfit};
use crate::inspect::name_of;
use crate::keys;
use crate::resp::{Malformed, Reply, bad_reply};
use crate::router::Router;
use crate::script_reply::{self, ScriptReply, Status};
use crate::script_request::{self, LineToSettle, ScriptRequest, SettledLine};

/// The first byte of a reservation; no state of a counter begins with it.
const RECORD: u8 = 82;
/// Bytes of a reservation before its parts, and of each part.
const HEAD_BYTES: usize = 9;
const PART_BYTES: usize = 21;
/// The bytes of a part between its index and its units, and those after the units.
const SHAPE_BYTES: usize = 8;
const MARK_BYTES: usize = 7;
/// How often a request waits for another request's two-phase commit, and the first pause; each
/// further one is longer by as much.
const ATTEMPTS_MAX: u32 = 8;
const PAUSE: Duration = Duration::from_millis(1);

/// Why Redis cannot store a reservation for a request. Nothing was charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoReservation {
    /// A charge is a refund, which each attempt would make: see [`Settlements::ask_until_free`].
    Refund,
    WriteBack,
    SeveralSlots,
    LongMemo,
}

/// Makes and settles reservations.
pub(crate) struct Settlements {
    router: Arc<Router>,
}

// === impl Settlements ===

impl Settlements {
    pub(crate) const fn new(router: Arc<Router>) -> Settlements {
        Settlements { router }
    }

    /// Whether Redis can store a reservation for a request.
    pub(crate) fn check(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> Result<(), NoReservation> {
        let keys = charges.iter().map(|charge| charge.key);
        if charges.iter().any(|charge| charge.cost.is_refund()) {
            return Err(NoReservation::Refund);
        }
        if charges.iter().any(is_written_back) {
            return Err(NoReservation::WriteBack);
        }
        if new.memo.len() > script_request::MEMO_BYTES_MAX {
            return Err(NoReservation::LongMemo);
        }
        if self.router.is_cluster() && crosses_slots(keys) {
            return Err(NoReservation::SeveralSlots);
        }
        Ok(())
    }

    /// Decides, and stores a reservation if the request is allowed: of one that [`Self::check`]
    /// accepts. `since` is when the time budget of the request starts.
    pub(crate) async fn reserve(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
        since: Instant,
    ) -> Result<ReserveVerdict, StoreError> {
        let fitted = script_request::fit_all(charges).map_err(unfit)?;
        let in_micros = script_reply::charges_in_micros(charges, &fitted);
        let (bill, fitted) = script_reply::bill(&in_micros, &fitted)?;
        let record = record_key(charges, new.secret);
        let lasts = new.lifetime.as_nanos() / GRAIN.as_nanos();
        let lines: Vec<_> = bill.lines().iter().zip(&fitted).collect();
        let request = |gives_way, stored: Option<Key>| {
            ScriptRequest::remember(&lines, stored, (lasts, gives_way), new.memo)
        };
        let (reply, unstored) = self.ask_until_free(request, record, since).await?;
        let verdict: Verdict = reply.of(&bill, &fitted).map_err(bad_reply)?;
        let is_kept = match unstored {
            Some(content) if verdict.is_allowed() => {
                let store = || ScriptRequest::store(record, lasts, [&content, new.memo]);
                // The request is charged already: an error could charge it again elsewhere.
                self.router.ask(store, since).await.is_ok()
            }
            _ => verdict.is_allowed(),
        };
        Ok(ReserveVerdict {
            verdict,
            reservation: is_kept.then_some(record),
        })
    }

    /// The reservation, unless it is settled or has expired.
    pub(crate) async fn find(&self, record: Key) -> Result<Option<KeptReservation>, StoreError> {
        let name = name_of(&self.router, record);
        // Reads as GET does. But it counts as a write, so a former primary, whose connections are
        // still open, rejects it, where GET would not find what the new primary has.
        let words: [&[u8]; 2] = [b"GETEX", name.as_bytes()];
        let reply = self.router.command(record, &words, Instant::now()).await;
        match reply.map_err(|failure| self.router.error(failure))? {
            Reply::Nil => Ok(None),
            Reply::Bulk(record) => read_record(record).map_err(bad_reply),
            _ => Err(bad_reply(Malformed("the reply to GETEX is not a string"))),
        }
    }

    /// Settles the reservation, unless it is settled or has expired. `guard` is of its keys.
    pub(crate) async fn settle(
        &self,
        record: Key,
        (settled, charges): (&[SettledCharge<'_>], &[Charge<'_>]),
        guard: RefundGuard,
        since: Instant,
    ) -> Result<Settled, StoreError> {
        let fitted = script_request::fit_all(charges).map_err(unfit)?;
        let in_micros = script_reply::charges_in_micros(charges, &fitted);
        // One line for each charge: no two charges of a reservation have the same key.
        let bill = Bill::new(&in_micros)?;
        let lines = settled.iter().zip(bill.lines()).zip(&fitted);
        let lines: Vec<_> = lines
            .map(|((one, line), fitted)| SettledLine {
                index: u8::try_from(one.line + 1).unwrap_or(0),
                line,
                fitted,
            })
            .collect();
        let whole = ScriptRequest::settle(&lines, record);
        let is_cluster = self.router.is_cluster();
        let parts = lines.iter().filter(|_| is_cluster);
        let parts: Vec<_> = parts.map(LineToSettle::new).collect();
        let router = Arc::clone(&self.router);
        let call = async move {
            match router.ask_unless_split(|| whole.clone(), since).await {
                Ok(reply) => Ok(Some(vec![reply])),
                Err(failed) if failed.is_split() => {
                    apart::settle(&router, record, &parts, since).await
                }
                Err(failed) => Err(router.error(failed)),
            }
        };
        let replies = guard.complete(call).await;
        let replies = replies.ok_or_else(|| self.router.timeout_error())??;
        let settled = replies.iter().flatten().map(read_settlements);
        let settled: Result<Option<Vec<_>>, _> = settled.collect();
        let settled = settled.map_err(bad_reply)?;
        Ok(replies.and(settled).map(|parts| parts.concat()))
    }

    /// Retries while units reserved by a two-phase commit block the request. As in a round over
    /// several slots, shadow limits give way from the second attempt on, if there is time for one:
    /// these units may be about to be released. Returns the reservation if it is not stored.
    async fn ask_until_free(
        &self,
        request: impl Fn(bool, Option<Key>) -> ScriptRequest,
        record: Key,
        since: Instant,
    ) -> Result<(ScriptReply, Option<Bytes>), StoreError> {
        let is_over = |pause| since.elapsed() + pause >= self.router.reply_timeout();
        for attempt in 1..=ATTEMPTS_MAX {
            let gives_way = attempt > 1 || is_over(PAUSE);
            let request = |stored| request(gives_way, stored);
            let (reply, unstored) = self.ask_together_or_apart(request, record, since).await?;
            if !reply.is_blocked() {
                return Ok((reply, unstored));
            }
            if is_over(PAUSE * attempt) {
                break;
            }
            sleep(PAUSE * attempt).await;
        }
        Err(StoreError::Contended)
    }

    /// Has Redis decide and store the reservation. If the slot migrates, Redis only decides, and
    /// the content of the reservation is returned as well.
    async fn ask_together_or_apart(
        &self,
        request: impl Fn(Option<Key>) -> ScriptRequest,
        record: Key,
        since: Instant,
    ) -> Result<(ScriptReply, Option<Bytes>), StoreError> {
        let together = || request(Some(record));
        match self.router.ask_unless_split(together, since).await {
            Ok(reply) => Ok((reply, None)),
            Err(failed) if failed.is_split() => {
                let reply = self.router.ask(|| request(None), since).await;
                let reply = reply.map_err(|failure| self.router.error(failure))?;
                let (reply, content) = reply.split_last().map_err(bad_reply)?;
                Ok((reply, Some(content)))
            }
            Err(failed) => Err(self.router.error(failed)),
        }
    }
}

fn is_written_back(charge: &Charge<'_>) -> bool {
    let mode = charge.sharing.mode;
    mode == Mode::WriteBack && mode.suits(charge.limit)
}

/// The key of a reservation: random, in the slot of the request's first key.
fn record_key(charges: &[Charge<'_>], secret: u128) -> Key {
    let first = charges.first().map(|charge| charge.key);
    keys::beside(first.unwrap_or(Key::from_bits(secret)), secret)
}

/// Parses a stored reservation; `None` for a counter, whose name is no secret.
fn read_record(mut record: Bytes) -> Result<Option<KeptReservation>, Malformed> {
    let short = Malformed("a reservation is too short");
    if record.first() != Some(&RECORD) {
        return Ok(None);
    }
    if record.len() < HEAD_BYTES {
        return Err(short);
    }
    record.advance(HEAD_BYTES - 1);
    let count = usize::from(record.get_u8());
    if record.len() < count * PART_BYTES {
        return Err(short);
    }
    let mut charged = Vec::with_capacity(count);
    for _ in 0..count {
        let line = usize::from(record.get_u8()).checked_sub(1);
        record.advance(SHAPE_BYTES);
        let units = record.get_uint(5);
        record.advance(MARK_BYTES);
        charged.push((line.ok_or(short)?, units));
    }
    Ok(Some(KeptReservation {
        charged,
        memo: record.to_vec(),
    }))
}

/// Parses the units that each line was settled to; `None` if there was no such reservation.
fn read_settlements(reply: &ScriptReply) -> Result<Settled, Malformed> {
    let other = Malformed("a reply that does not match the request");
    let ScriptReply::General(reply) = reply else {
        return Err(other);
    };
    match reply.status {
        Status::Denied => return Ok(None),
        Status::Blocked => return Err(other),
        Status::Allowed => {}
    }
    let settlement = |state: &Bytes| {
        let mut state = state.clone();
        if state.len() != 10 {
            return Err(other);
        }
        let (charged, remaining) = (state.get_uint(5), state.get_uint(5));
        let remaining = u32::try_from(remaining).map_err(|_| other)?;
        Ok(Settlement::new(charged, remaining))
    };
    let settlements: Result<Vec<_>, _> = reply.states.iter().map(settlement).collect();
    settlements.map(Some)
}

// === impl NoReservation ===

impl From<NoReservation> for StoreError {
    fn from(reason: NoReservation) -> StoreError {
        StoreError::Unfit {
            source: Box::new(reason),
        }
    }
}

impl fmt::Display for NoReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoReservation::Refund => {
                "the cost of a reservation is an estimate of what will be consumed, and a refund \
                 is none; send the refund by itself"
            }
            NoReservation::WriteBack => {
                "a limit in mode `write_back` has no reservations, because Redis does not know all \
                 of its units; use `strict` or `leased`"
            }
            NoReservation::SeveralSlots => {
                "the limits of a reservation must be in one slot of the Redis Cluster: distinguish \
                 the same values in each of its descriptors"
            }
            NoReservation::LongMemo => {
                "the names of the limits of this reservation are too long to be kept; send fewer \
                 descriptors"
            }
        })
    }
}

impl std::error::Error for NoReservation {}
