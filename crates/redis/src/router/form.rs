//! The script that handles a request, or the part of a round in one slot.
//!
//! `plain.lua`, `joint.lua` and `reservation.lua` are several times as fast as the general script,
//! and handle only the common case. Whether a key needs the general script is known only in Redis:
//! the short one then changes nothing and says so, and the same request or part is sent to the
//! general one. All use the same states, so they can be mixed freely: either may reserve and either
//! may confirm, also with earlier versions of Tollgate.

use super::node_failure::NodeFailure;
use crate::script_reply::ScriptReply;

/// The script to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `plain.lua` for one limit, `joint.lua` for several, `reservation.lua` for a part, if it can
    /// handle them.
    Short,
    General,
}

/// Asks in the short form, and then in the general one if a key needs it.
pub(crate) async fn ask_short_first<A: Future<Output = Result<ScriptReply, NodeFailure>>>(
    ask: impl Fn(Form) -> A,
) -> Result<ScriptReply, NodeFailure> {
    match ask(Form::Short).await {
        Err(failed) if failed.needs_general() => ask(Form::General).await,
        reply => reply,
    }
}
