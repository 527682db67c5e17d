//! Requests over several slots of one node, in one call.

use std::sync::Arc;

use tokio::time::Instant;
use tollgate_core::Key;

use super::{NodeFailure, Nodes, Router};
use crate::cluster::Node;
use crate::keys;
use crate::request_queue::{Redirected, RequestQueue};
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;

impl Router {
    /// The node that serves all these keys and may decide on them in one call, if there is one.
    pub(crate) fn common_node(&self, keys: impl Iterator<Item = Key>) -> Option<Arc<Node>> {
        let Nodes::Cluster { cluster, .. } = &self.nodes else {
            return None;
        };
        let node = cluster.common_node(keys.map(keys::slot))?;
        let shares_slots = node.queues.iter().all(RequestQueue::shares_slots);
        shares_slots.then_some(node)
    }

    /// Sends a request to the node that serves all of its slots. If it does not, or cannot decide
    /// on them in one call, nothing is done: [`NodeFailure::is_apart`].
    pub(crate) async fn ask_node(
        &self,
        node: &Node,
        request: ScriptRequest,
        since: Instant,
    ) -> Result<ScriptReply, NodeFailure> {
        let key = request.keys()[0];
        node.ask(request, key, None, Redirected::No, since.into())
            .await
    }
}
