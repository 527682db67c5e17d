//! The script that handles a request with several limits, or the part of a round in one slot.
//!
//! `joint.lua` and `reservation.lua` are several times as fast as the general script, and handle
//! only the common case. Whether a key needs the general script is known only in Redis: the short
//! one then changes nothing and says so, and the same request or part is sent to the general one.
//! All use the same states, so they can be mixed freely: either may reserve and either may confirm,
//! also with earlier versions of Tollgate, which use only the general one.

use tokio::time::Instant;

use crate::router::{NodeFailure, Router};
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;

/// The script to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `joint.lua` for a request, `reservation.lua` for a part, if it can handle such lines.
    Short,
    General,
}

/// Calls the short script, and then the general one if the key needs it.
pub(super) async fn ask(
    router: &Router,
    request: impl Fn(Form) -> ScriptRequest,
    since: Instant,
) -> Result<ScriptReply, NodeFailure> {
    match router.ask(|| request(Form::Short), since).await {
        Err(failed) if failed.needs_general() => router.ask(|| request(Form::General), since).await,
        reply => reply,
    }
}
