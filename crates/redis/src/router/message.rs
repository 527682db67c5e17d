//! Many requests at once, in one message to each node.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Asked, Nodes, Router};
use crate::cluster::Node;
use crate::failure::Failure;
use crate::join::join_all;
use crate::keys;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;

impl Router {
    /// Asks all of these, with one message to each node that serves some of their keys; says how
    /// many messages that were.
    pub(crate) async fn ask_all(
        &self,
        requests: Vec<ScriptRequest>,
        since: Instant,
    ) -> (Vec<Result<ScriptReply, Asked>>, usize) {
        let cluster = match &self.nodes {
            Nodes::One(alone) => return (alone.ask_all(requests, since).await, 1),
            Nodes::Cluster { cluster, .. } => cluster,
        };
        // For each node, which requests it is asked.
        let mut parts: Vec<(Option<Arc<Node>>, Vec<usize>)> = Vec::new();
        for (place, request) in requests.iter().enumerate() {
            let node = cluster.node_of_slot(keys::slot(request.keys()[0]));
            let address = |node: &Option<Arc<Node>>| node.as_ref().map(Arc::as_ptr);
            match parts
                .iter_mut()
                .find(|(other, _)| address(other) == address(&node))
            {
                Some((_, places)) => places.push(place),
                None => parts.push((node, vec![place])),
            }
        }
        let messages = parts.len();
        let asked = parts.iter().map(|(node, places)| async {
            let some = places.iter().map(|place| {
                let request = requests[*place].clone();
                let slot = keys::slot(request.keys()[0]);
                (request, slot)
            });
            match node {
                Some(node) => node.ask_all(some, since).await,
                None => some.map(|_| Err(Asked::nowhere(None))).collect(),
            }
        });
        let reply = join_all(asked.collect()).await;
        let places = parts.iter().flat_map(|(_, places)| places.iter().copied());
        let mut reply: Vec<(usize, Result<ScriptReply, Asked>)> =
            places.zip(reply.into_iter().flatten()).collect();
        reply.sort_by_key(|(place, _)| *place);
        let settled = reply
            .into_iter()
            .map(|(place, reply)| self.follow_redirection(reply, &requests[place], since));
        (join_all(settled.collect()).await, messages)
    }

    /// Asks the node that serves a request's keys by now, if it was redirected.
    async fn follow_redirection(
        &self,
        reply: Result<ScriptReply, Asked>,
        request: &ScriptRequest,
        since: Instant,
    ) -> Result<ScriptReply, Asked> {
        match reply {
            Err(Asked {
                failure: Failure::Moved { .. } | Failure::Ask { .. } | Failure::TryAgain,
                ..
            }) => self.ask(|| request.clone(), since).await,
            reply => reply,
        }
    }
}

impl Node {
    /// Asks all of these on the first request queue, so that they go out together.
    pub(super) async fn ask_all(
        &self,
        requests: impl ExactSizeIterator<Item = (ScriptRequest, u16)>,
        since: Instant,
    ) -> Vec<Result<ScriptReply, Asked>> {
        let failed = |failure| Asked {
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
            reply.push(answer.await.unwrap_or(Err(Failure::Lost)).map_err(failed));
        }
        reply
    }
}
