//! The parsers of a server's replies, for fuzz targets. Not part of the crate's interface: it may
//! change with any version.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use tollgate_core::{Cost, Decision, Limit, OnDenial, step};

use crate::cluster;
use crate::failure::Rejection;
use crate::fit::FittedLimit;
use crate::resp::{self, Malformed};
use crate::script_reply::ScriptReply;
use crate::snapshot::moment;

/// Takes the first reply out of `input`; `None` if it is incomplete.
///
/// # Errors
///
/// The bytes that were read are not a valid reply.
pub fn reply(input: &mut BytesMut) -> Result<Option<impl Debug + use<>>, Malformed> {
    resp::take(input)
}

/// The ranges of slots in a `CLUSTER SLOTS` reply, and which `host:port` serves each; empty if the
/// reply is invalid or incomplete.
pub fn slot_map(input: &[u8]) -> Vec<(RangeInclusive<usize>, String)> {
    let Ok(Some(reply)) = resp::take(&mut BytesMut::from(input)) else {
        return Vec::new();
    };
    let ranges = cluster::ranges(&reply, "127.0.0.1");
    let pairs = ranges.into_iter().map(|range| (range.slots, range.address));
    pairs.collect()
}

/// Parses an error reply to a script call; returns whether the request is sent again, to this or
/// another node.
pub fn is_retried(text: &[u8]) -> bool {
    use crate::failure::Failure::{Ask, Moved, TryAgain, Unserved};
    match Rejection::read(text) {
        Rejection::NoScript => true,
        Rejection::NotMaster(_) | Rejection::Unable(_) => false,
        Rejection::Elsewhere(failure) => {
            matches!(failure, Moved { .. } | Ask { .. } | TryAgain | Unserved(_))
        }
    }
}

/// Parses a reply of the general script to one request about `limit`, and decides on one unit by
/// it; `None` if it is malformed, or Redis cannot keep the limit.
pub fn decision(answer: &[u8], limit: &Limit) -> Option<Decision> {
    let fitted = FittedLimit::new(limit).ok()?;
    let answer = Bytes::copy_from_slice(answer);
    let reply = ScriptReply::general(answer, std::iter::once(1)).ok()?;
    let (mut snapshot, now) = reply.first()?.snapshot(&fitted).ok()?;
    let decision = step(
        &mut snapshot,
        &fitted.limit,
        moment(now),
        Cost::ONE,
        OnDenial::Charge,
    );
    Some(decision)
}
