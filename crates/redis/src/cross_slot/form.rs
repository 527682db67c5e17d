//! For which script the part of a round in one slot is packed.
//!
//! `reservation.lua` is several times as fast as the general script, and decides only the common
//! case. Whether a key needs the general one, only Redis knows: then the short one has done nothing
//! and says so, and the same part goes to the general one. Both read and write the same states, so
//! it does not matter which of them reserved and which confirms, nor that an earlier version of
//! Tollgate uses the general one only.

use tokio::time::Instant;

use crate::failure::Failure;
use crate::router::{NodeFailure, Router};
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;

/// For which script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For `reservation.lua`, if that can decide such lines.
    Short,
    General,
}

/// Asks with the short script, and with the general one if the key needs it.
pub(super) async fn ask(
    router: &Router,
    request: impl Fn(Form) -> ScriptRequest,
    since: Instant,
) -> Result<ScriptReply, NodeFailure> {
    match router.ask(|| request(Form::Short), since).await {
        Err(NodeFailure {
            failure: Failure::Changed,
            ..
        }) => router.ask(|| request(Form::General), since).await,
        reply => reply,
    }
}
