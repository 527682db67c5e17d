//! Many requests at once, with one message to each node.

use std::sync::Arc;

use tokio::time::Instant;

use super::{NodeFailure, Nodes, Router};
use crate::cluster::{Cluster, Node};
use crate::failure::Failure;
use crate::join::join_all;
use crate::keys;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;

/// Requests to one node, each with its index among all; `None` if no node serves their slots.
type Part = (Option<Arc<Node>>, Vec<(usize, ScriptRequest)>);

impl Router {
    /// Sends `count` requests, with one message to each node that serves some of their keys.
    /// Returns the replies in order, and the number of messages. `request` builds the request at an
    /// index, and again if it was redirected.
    pub(crate) async fn ask_all(
        &self,
        count: usize,
        request: impl Fn(usize) -> ScriptRequest,
        since: Instant,
    ) -> (Vec<Result<ScriptReply, NodeFailure>>, usize) {
        let requests = (0..count).map(&request);
        let cluster = match &self.nodes {
            Nodes::One(alone) => return (alone.ask_all(requests.collect(), since).await, 1),
            Nodes::Cluster { cluster, .. } => cluster,
        };
        let parts = by_node(requests, cluster);
        let messages = parts.len();
        let replies = parts.into_iter().map(|part| ask_part(part, since));
        let replies = join_all(replies.collect()).await.into_iter().flatten();
        let mut replies: Vec<(usize, Result<ScriptReply, NodeFailure>)> = replies.collect();
        replies.sort_by_key(|(index, _)| *index);
        let request = &request;
        let settled = replies
            .into_iter()
            .map(|(index, reply)| self.follow_redirection(reply, move || request(index), since));
        (join_all(settled.collect()).await, messages)
    }

    /// Repeats a redirected request at the node that serves its keys now.
    async fn follow_redirection(
        &self,
        reply: Result<ScriptReply, NodeFailure>,
        request: impl Fn() -> ScriptRequest,
        since: Instant,
    ) -> Result<ScriptReply, NodeFailure> {
        match reply {
            Err(NodeFailure {
                failure:
                    Failure::Moved { .. }
                    | Failure::Ask { .. }
                    | Failure::TryAgain
                    | Failure::Unserved(_),
                ..
            }) => self.ask(request, since).await,
            reply => reply,
        }
    }
}

/// Groups the requests by node.
fn by_node(requests: impl Iterator<Item = ScriptRequest>, cluster: &Cluster) -> Vec<Part> {
    let address = |node: &Option<Arc<Node>>| node.as_ref().map(Arc::as_ptr);
    let mut parts: Vec<Part> = Vec::new();
    for (index, request) in requests.enumerate() {
        let node = cluster.node_of_slot(keys::slot(request.keys()[0]));
        let mut known = parts.iter_mut();
        match known.find(|(other, _)| address(other) == address(&node)) {
            Some((_, part)) => part.push((index, request)),
            None => parts.push((node, vec![(index, request)])),
        }
    }
    parts
}

/// Sends one node's requests, and returns its replies with their indexes.
async fn ask_part(
    (node, part): Part,
    since: Instant,
) -> Vec<(usize, Result<ScriptReply, NodeFailure>)> {
    let indexes: Vec<usize> = part.iter().map(|(index, _)| *index).collect();
    let requests = part.into_iter().map(|(_, request)| {
        let slot = keys::slot(request.keys()[0]);
        (request, slot)
    });
    let replies = match node {
        Some(node) => node.ask_all(requests, since).await,
        None => requests.map(|_| Err(NodeFailure::no_node(None))).collect(),
    };
    indexes.into_iter().zip(replies).collect()
}

impl Node {
    /// Sends all of these on the first request queue, so that they share one write.
    pub(super) async fn ask_all(
        &self,
        requests: impl ExactSizeIterator<Item = (ScriptRequest, u16)>,
        since: Instant,
    ) -> Vec<Result<ScriptReply, NodeFailure>> {
        let failed = |failure| NodeFailure {
            failure,
            address: self.address.clone(),
        };
        let count = requests.len();
        let answers = match self.queues[0].ask_together(requests, since) {
            Ok(answers) => answers,
            Err(failure) => return (0..count).map(|_| Err(failed(failure.clone()))).collect(),
        };
        let mut reply = Vec::with_capacity(count);
        for answer in answers {
            reply.push(
                answer
                    .await
                    .unwrap_or(Err(Failure::OutcomeUnknown))
                    .map_err(failed),
            );
        }
        reply
    }
}
