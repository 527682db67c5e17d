//! Redirects of a Redis Cluster: `MOVED`, `ASK` and `TRYAGAIN`; and slots that nobody serves.

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep};

use super::node_failure::NodeFailure;
use crate::cluster::{Cluster, Node};
use crate::failure::Failure;
use crate::request_queue::Redirected;
use crate::stats::Stats;

/// The most redirects that one request follows.
const REDIRECTIONS_MAX: usize = 8;
/// The pause before a retry while a slot migrates and its keys are on two nodes.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// A request's slot, and how long its redirects may be followed.
pub(super) struct Redirections<'r> {
    pub(super) cluster: &'r Cluster,
    pub(super) stats: &'r Stats,
    pub(super) slot: u16,
    pub(super) deadline: Instant,
    pub(super) waits: Waits,
}

/// Whether a request whose keys are on two nodes, as their slot migrates, waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    No,
    Yes,
}

// === impl Redirections ===

impl Redirections<'_> {
    /// Sends a request to the node that serves the slot, and follows redirects: a redirected
    /// request was not executed. `send` gets the node, and what the last one answered.
    pub(super) async fn follow<T, F>(
        &self,
        mut send: impl FnMut(Arc<Node>, Redirected) -> F,
    ) -> Result<T, NodeFailure>
    where
        F: Future<Output = Result<T, NodeFailure>>,
    {
        let mut redirected = Redirected::No;
        let mut node = self.cluster.node_of_slot(self.slot);
        let mut unserved = None;
        for _ in 0..REDIRECTIONS_MAX {
            let Some(serving) = &node else { break };
            let reply = send(Arc::clone(serving), redirected).await;
            let Err(NodeFailure { failure, .. }) = &reply else {
                return reply;
            };
            redirected = match failure {
                Failure::Ask { .. } => Redirected::Ask,
                Failure::TryAgain => Redirected::TryAgain,
                _ => Redirected::No,
            };
            unserved = match failure {
                Failure::Unserved(error) => Some((Arc::clone(serving), error.clone())),
                _ => None,
            };
            node = match failure {
                Failure::Moved { slot, address } => {
                    let address = serving.full_address(address);
                    self.cluster.move_slot(*slot, &address);
                    self.cluster.node(&address)
                }
                Failure::Ask { address } => self.cluster.node(&serving.full_address(address)),
                Failure::TryAgain if self.waits == Waits::No => return reply,
                Failure::TryAgain | Failure::Unserved(_) => {
                    self.cluster.stale.notify_one();
                    // No other node is known that could be tried.
                    if unserved.is_some() && !self.cluster.serves(self.slot) {
                        break;
                    }
                    // A timer fires up to a millisecond late, and the reply takes time as well.
                    if Instant::now() + 2 * RETRY_PAUSE >= self.deadline {
                        break;
                    }
                    sleep(RETRY_PAUSE).await;
                    self.cluster.node_of_slot(self.slot)
                }
                Failure::Unreachable(_) | Failure::Rejected(_) => {
                    self.cluster.stale.notify_one();
                    return reply;
                }
                _ => return reply,
            };
            self.stats.count_redirection();
            if Instant::now() >= self.deadline {
                break;
            }
        }
        let Some((asked, error)) = unserved else {
            return Err(NodeFailure::of_last_redirect(redirected, node.as_deref()));
        };
        self.stats.trouble.record_error(&asked.address, &error);
        Err(NodeFailure {
            failure: error.failure(),
            address: asked.address.clone(),
        })
    }
}
