//! Inspection: the state of one key in Redis, for operators.
//!
//! Names of keys are hashes, so a client's key cannot be found by listing the keys in Redis: it is
//! found from the same values that a request has.

use bytes::{Buf, Bytes};
use tokio::time::Instant;
use tollgate_core::{
    Bill, Charge, Cost, HeldUnits, Key, KeyState, OnDenial, Span, StoreError, step,
};

use crate::failure::Failure;
use crate::fit::{FittedLimit, GRAIN, unfit};
use crate::keys;
use crate::resp::{Malformed, Reply, bad_reply};
use crate::router::Router;
use crate::script::inspection_script;
use crate::script_reply::ScriptReply;
use crate::script_request::{Plain, ScriptRequest};
use crate::snapshot::moment;

/// The first byte of a state with units held beside it (see `script/general/holds.lua`); then
/// follows the number of entries (1), and for each a name (8), units (5) and an end (7).
const HELD: u8 = 128;
const HOLD_BYTES: usize = 20;
/// The first bytes of names of leases; those of reservations are below, and above are entries
/// that hold no units.
const LEASE_NAMES: std::ops::Range<u8> = 128..192;

/// The name of a key in Redis.
pub(crate) fn name_of(router: &Router, key: Key) -> String {
    let name = keys::name(key);
    format!("{}{}", router.prefix(), String::from_utf8_lossy(&name))
}

/// The state of the charge's key in Redis under its limit.
pub(crate) async fn inspect(router: &Router, charge: &Charge<'_>) -> Result<KeyState, StoreError> {
    let fitted = FittedLimit::new(charge.limit).map_err(unfit)?;
    let units = charge.cost.units_needed().unwrap_or(1);
    let peek = Charge::new(charge.key, &fitted.limit, Cost::Peek(units));
    let bill = Bill::new(&[peek])?;
    let ScriptRequest::General(request) = ScriptRequest::of(&bill, &[fitted]) else {
        return Err(bad_reply(Malformed(
            "a bill is a request to the general script",
        )));
    };
    let (script, name) = (inspection_script(), name_of(router, charge.key));
    let words: [&[u8]; 5] = [
        b"EVAL",
        script.as_bytes(),
        b"1",
        name.as_bytes(),
        &request.packed,
    ];
    let reply = router.command(charge.key, &words, Instant::now()).await;
    let reply = reply.map_err(|failed| match failed.failure {
        Failure::Rejected(error) if error.is_of_value() => StoreError::BadReply {
            source: format!("this version cannot read its value: {}", error.text).into(),
        },
        _ => router.error(failed),
    })?;
    let inspection = Inspection::read(&reply, request.states).map_err(bad_reply)?;
    if inspection.bytes == 0 {
        // The reply of a server that rejects writes looks the same.
        try_to_decide(router, charge.key).await?;
    }
    let (mut snapshot, now) = inspection.reply.snapshot(&fitted).map_err(bad_reply)?;
    let limit = &fitted.limit;
    let decision = step(&mut snapshot, limit, moment(now), peek.cost, OnDenial::Keep);
    let (leased, reserved) = inspection.out(now);
    Ok(KeyState {
        bytes: inspection.bytes,
        expires: inspection.expires,
        decision,
        leased,
        reserved,
    })
}

/// Checks that Redis decides on keys in the slot of `key`, with a decision on a reserved key, which
/// expires within a second.
async fn try_to_decide(router: &Router, key: Key) -> Result<(), StoreError> {
    let trial = || ScriptRequest::Plain(Plain::trial(key));
    let reply = router.ask(trial, Instant::now()).await;
    reply.map(drop).map_err(|failure| router.error(failure))
}

/// Deletes a key from Redis; returns whether it existed.
pub(crate) async fn delete(router: &Router, key: Key) -> Result<bool, StoreError> {
    let name = name_of(router, key);
    let words: [&[u8]; 2] = [b"DEL", name.as_bytes()];
    let reply = router.command(key, &words, Instant::now()).await;
    match reply.map_err(|failure| router.error(failure))? {
        Reply::Integer(deleted) => Ok(deleted > 0),
        _ => Err(bad_reply(Malformed("the reply to DEL is not a number"))),
    }
}

/// The reply of the inspection script.
struct Inspection {
    reply: ScriptReply,
    bytes: u64,
    expires: Option<Span>,
    /// The first bytes of the state.
    begins: Bytes,
}

// === impl Inspection ===

impl Inspection {
    /// Parses the reply to an inspection that returns this many states.
    fn read(reply: &Reply, states: usize) -> Result<Inspection, Malformed> {
        let other = Malformed("an unexpected reply to an inspection");
        let [
            Reply::Bulk(answer),
            Reply::Integer(bytes),
            Reply::Integer(ttl),
            Reply::Bulk(begins),
        ] = reply.elements()
        else {
            return Err(other);
        };
        let reply = ScriptReply::general(answer.clone(), std::iter::once(states))?;
        Ok(Inspection {
            reply: reply.into_iter().next().ok_or(other)?,
            bytes: u64::try_from(*bytes).map_err(|_| other)?,
            // Negative, if there is no such key.
            expires: u64::try_from(*ttl).ok().map(Span::from_millis),
            begins: begins.clone(),
        })
    }

    /// The units leased and reserved, without those that have expired.
    fn out(&self, now: u64) -> (HeldUnits, HeldUnits) {
        let (mut leased, mut reserved) = (HeldUnits::default(), HeldUnits::default());
        let holds = match &self.begins[..] {
            [HELD, places, holds @ ..] => {
                let length = usize::from(*places) * HOLD_BYTES;
                &holds[..length.min(holds.len())]
            }
            _ => &[],
        };
        for mut hold in holds.chunks_exact(HOLD_BYTES) {
            let name = hold[0];
            if name >= LEASE_NAMES.end {
                continue;
            }
            hold.advance(8);
            let (units, till) = (hold.get_uint(5), hold.get_uint(7));
            let Some(left) = till.checked_sub(now).filter(|left| *left > 0) else {
                continue;
            };
            let out = match LEASE_NAMES.contains(&name) {
                true => &mut leased,
                false => &mut reserved,
            };
            out.units += units;
            out.holders += 1;
            out.ends = out.ends.max(GRAIN.times(left));
        }
        (leased, reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspection(begins: Vec<u8>) -> Inspection {
        Inspection {
            reply: ScriptReply::Changed,
            bytes: 0,
            expires: None,
            begins: Bytes::from(begins),
        }
    }

    fn hold(name: u8, units: u8, till: u16) -> Vec<u8> {
        let mut hold = vec![name; 8];
        hold.extend([0, 0, 0, 0, units, 0, 0, 0, 0, 0]);
        hold.extend(till.to_be_bytes());
        hold
    }

    #[test]
    fn leases_and_reservations_are_distinguished_until_they_end() {
        let holds = [hold(190, 5, 1_500), hold(3, 7, 1_100), hold(129, 1, 3_000)];
        let ended = [
            hold(190, 50, 1_000),
            hold(193, 9, 9_000),
            vec![0; HOLD_BYTES],
        ];
        let begins = [vec![HELD, 6], holds.concat(), ended.concat(), vec![6; 11]].concat();
        let (leased, reserved) = inspection(begins).out(1_000);
        let micros = |count| GRAIN.times(count);
        assert_eq!(
            (leased.units, leased.holders, leased.ends),
            (6, 2, micros(2_000))
        );
        assert_eq!(
            (reserved.units, reserved.holders, reserved.ends),
            (7, 1, micros(100))
        );
    }

    #[test]
    fn a_state_without_holds_or_cut_short_has_none() {
        for begins in [vec![], vec![5; 12], vec![HELD], vec![HELD, 250, 1, 2]] {
            assert_eq!(
                inspection(begins).out(1_000),
                (HeldUnits::default(), HeldUnits::default())
            );
        }
    }
}
