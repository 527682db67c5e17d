//! Reservations whose slot migrates, so that no call may have both a counter and the reservation.
//!
//! One call removes the reservation, and then each line is settled by itself. So a reservation is
//! settled at most once. If this fails in between, units stay charged that could be refunded.

use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::{Key, StoreError};

use crate::join::join_all;
use crate::resp::{Malformed, bad_reply};
use crate::router::Router;
use crate::script_reply::{ScriptReply, Status};
use crate::script_request::{LineToSettle, ScriptRequest};

/// Settles each line by itself: the reply to each; `None` if there is no such reservation.
pub(super) async fn settle(
    router: &Arc<Router>,
    record: Key,
    lines: &[LineToSettle],
    since: Instant,
) -> Result<Option<Vec<ScriptReply>>, StoreError> {
    let taken = router.ask(|| ScriptRequest::take(record), since).await;
    let taken = taken.map_err(|failure| router.error(failure))?;
    let (taken, content) = taken.split_last().map_err(bad_reply)?;
    let ScriptReply::General(taken) = taken else {
        return Err(bad_reply(Malformed(
            "a reply that does not match the request",
        )));
    };
    if taken.status != Status::Allowed {
        return Ok(None);
    }
    let content = &content;
    let replies = lines.iter().map(|line| {
        let asked = router.ask(|| line.settle_by(content), since);
        async move { asked.await.map_err(|failure| router.error(failure)) }
    });
    let replies = join_all(replies.collect()).await;
    replies.into_iter().collect::<Result<_, _>>().map(Some)
}
