//! The only server of a store without a Cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;
use tollgate_core::Key;

use super::node_failure::NodeFailure;
use crate::cluster::Node;
use crate::failure::Failure;
use crate::request_queue::Redirected;
use crate::resp::Reply;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;
use crate::stats::Stats;
use crate::turn::Turn;

/// Why a single server that redirects cannot be used.
const OF_CLUSTER: &str = "it is one node of a Cluster: name it in `cluster`";

/// The only server of a store without a Cluster.
pub(super) struct Alone {
    node: Node,
    stats: Arc<Stats>,
    /// Whether it has redirected a request: then it is a node of a Cluster, and serves only some
    /// slots.
    is_of_cluster: AtomicBool,
}

// === impl Alone ===

impl Alone {
    pub(super) fn new(node: Node, stats: &Arc<Stats>) -> Alone {
        Alone {
            node,
            stats: Arc::clone(stats),
            is_of_cluster: AtomicBool::new(false),
        }
    }

    /// The address, for errors and logs.
    pub(super) fn address(&self) -> &str {
        &self.node.address
    }

    pub(super) fn is_up(&self) -> bool {
        self.node.is_up() && !self.is_of_cluster.load(Ordering::Relaxed)
    }

    pub(super) async fn ask(
        &self,
        request: ScriptRequest,
        key: Key,
        turn: Turn,
    ) -> Result<ScriptReply, NodeFailure> {
        let reply = self
            .node
            .ask(request, key, Some(0), Redirected::No, turn)
            .await;
        reply.map_err(|failure| self.explain(failure))
    }

    /// Sends all of these in one message.
    pub(super) async fn ask_all(
        &self,
        requests: Vec<ScriptRequest>,
        since: Instant,
    ) -> Vec<Result<ScriptReply, NodeFailure>> {
        let requests = requests.into_iter().map(|one| (one, 0));
        let reply = self.node.ask_all(requests, since).await.into_iter();
        reply
            .map(|reply| reply.map_err(|failure| self.explain(failure)))
            .collect()
    }

    pub(super) async fn command(
        &self,
        words: &[&[u8]],
        deadline: Instant,
    ) -> Result<Reply, NodeFailure> {
        let reply = self.node.command(words, deadline).await;
        reply.map_err(|failure| self.explain(failure))
    }

    /// Replaces a redirect by the reason: a node of a Cluster must not be configured as a single
    /// server.
    fn explain(&self, failed: NodeFailure) -> NodeFailure {
        let redirects = matches!(
            failed.failure,
            Failure::Moved { .. } | Failure::Ask { .. } | Failure::TryAgain | Failure::Unserved(_)
        );
        if !redirects {
            return failed;
        }
        self.is_of_cluster.store(true, Ordering::Relaxed);
        self.stats
            .trouble
            .record_failure(&self.node.address, &OF_CLUSTER);
        NodeFailure {
            failure: Failure::unreachable(OF_CLUSTER),
            ..failed
        }
    }
}
