//! Routes requests to the Redis nodes that serve their slots.

mod alone;
mod form;
mod message;
mod node_failure;
mod one_node;
mod redirections;
mod single;

use std::sync::Arc;

use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Duration, Instant, timeout_at};
use tollgate_core::{Key, Span, StoreError};

use alone::Alone;
pub(crate) use form::{Form, ask_short_first};
pub(crate) use node_failure::NodeFailure;
use redirections::Redirections;
pub(crate) use redirections::Waits;

use crate::cluster::{Cluster, Node};
use crate::config::{Config, Servers};
use crate::connection::Opener;
use crate::connection_task::{ConnectionTask, Target};
use crate::environment::Environment;
use crate::failure::{Busy, Failure, Rejection};
use crate::keys;
use crate::request_queue::{Redirected, RequestQueue};
use crate::resp::Reply;
use crate::script::Caller;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;
use crate::sentinel;
use crate::stats::Stats;
use crate::turn::Turn;

/// Timers fire up to two ticks late: callers time out that much earlier, or a fifth of the timeout.
const TICKS: Duration = Duration::from_millis(2);

/// Routes requests to the nodes of a store.
pub(crate) struct Router {
    nodes: Nodes,
    /// The tasks that poll the sentinels; they end with the router.
    _sentinels: JoinSet<()>,
    prefix: String,
    timeout: Duration,
    /// How long a caller waits for a reply.
    reply_timeout: Duration,
}

enum Nodes {
    One(Alone),
    Cluster {
        cluster: Arc<Cluster>,
        /// Keeps the topology up to date.
        keeper: JoinHandle<()>,
        stats: Arc<Stats>,
    },
}

// === impl Router ===

impl Router {
    /// Connects to the servers of `config` in the background.
    pub(crate) fn new(
        config: &Config,
        environment: &Environment,
        opener: Opener,
        stats: &Arc<Stats>,
    ) -> Router {
        let timeout = Duration::from(config.timeout);
        let reply_timeout = timeout - TICKS.min(timeout / 5);
        let prefix = config.prefix.clone();
        let queues = QueueOpener {
            opener: opener.clone(),
            caller: Caller::new(&prefix, environment),
            batch: config.batch,
            count: config.connections,
            reply_timeout,
            stats: Arc::clone(stats),
        };
        let one = |target| Nodes::One(Alone::new(queues.to(target), stats));
        let mut sentinels = JoinSet::new();
        let nodes = match &config.servers {
            Servers::Single(address) => one(Target::Fixed(address.as_str().into())),
            Servers::Sentinel { addresses, master } => {
                let opener = opener.for_sentinels(config);
                let master: Arc<str> = master.as_str().into();
                let (named, tasks) = sentinel::watch(&opener, addresses, &master, stats);
                sentinels = tasks;
                one(Target::Watched { named, master })
            }
            Servers::Cluster(seeds) => {
                let open = move |address: &str| queues.to(Target::Member(address.into()));
                let cluster = Arc::new(Cluster::new(seeds.clone(), Arc::clone(stats), open));
                let kept = Arc::clone(&cluster);
                Nodes::Cluster {
                    cluster,
                    keeper: tokio::spawn(async move { kept.keep().await }),
                    stats: Arc::clone(stats),
                }
            }
        };
        Router {
            nodes,
            _sentinels: sentinels,
            prefix,
            timeout,
            reply_timeout,
        }
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.nodes, Nodes::Cluster { .. })
    }

    /// How long a caller waits for a reply: less than the timeout.
    pub(crate) const fn reply_timeout(&self) -> Duration {
        self.reply_timeout
    }

    /// The prefix of every key.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The name of the store in errors and logs.
    pub(crate) fn name(&self) -> &str {
        match &self.nodes {
            Nodes::One(alone) => alone.address(),
            Nodes::Cluster { .. } => "cluster",
        }
    }

    /// A number that identifies the set of nodes that serve these slots.
    pub(crate) fn nodes_of(&self, slots: impl Iterator<Item = u16>) -> u64 {
        match &self.nodes {
            Nodes::One(_) => 0,
            Nodes::Cluster { cluster, .. } => cluster.nodes_of(slots),
        }
    }

    /// How long a decision may take.
    pub(crate) fn timeout(&self) -> Span {
        self.timeout.into()
    }

    /// A failure as an error of the store.
    pub(crate) fn error(&self, failure: NodeFailure) -> StoreError {
        failure.into_error(self.timeout())
    }

    /// The error of a decision that exceeds the timeout.
    pub(crate) fn timeout_error(&self) -> StoreError {
        StoreError::TimedOut {
            after: self.timeout(),
        }
    }

    /// The error of a request that expired before it was sent. Most requests of an overload end
    /// with it, so it must be cheap.
    pub(crate) fn busy(&self) -> StoreError {
        StoreError::Unreachable {
            address: self.name().into(),
            source: Box::new(Busy),
        }
    }

    /// Whether every primary is reachable.
    pub(crate) fn is_up(&self) -> bool {
        match &self.nodes {
            Nodes::One(alone) => alone.is_up(),
            Nodes::Cluster { cluster, .. } => cluster.is_up(),
        }
    }

    /// As [`Router::ask`], or with [`Waits::No`] as [`Router::ask_unless_split`], in the short form
    /// first.
    pub(crate) async fn ask_in_form(
        &self,
        request: impl Fn(Form) -> ScriptRequest,
        turn: impl Into<Turn>,
        waits: Waits,
    ) -> Result<ScriptReply, NodeFailure> {
        let (turn, request) = (turn.into(), &request);
        ask_short_first(|form| self.follow_or_fail(move || request(form), turn, waits)).await
    }

    /// Sends a request to the node that serves its keys, and follows redirects: a redirected
    /// request was not executed.
    pub(crate) async fn ask(
        &self,
        request: impl Fn() -> ScriptRequest,
        turn: impl Into<Turn>,
    ) -> Result<ScriptReply, NodeFailure> {
        self.follow_or_fail(request, turn.into(), Waits::Yes).await
    }

    /// The same, but a request with several keys does not wait while their slot migrates and they
    /// are on two nodes, or one of them is new: [`NodeFailure::is_split`].
    pub(crate) async fn ask_unless_split(
        &self,
        request: impl Fn() -> ScriptRequest,
        turn: impl Into<Turn>,
    ) -> Result<ScriptReply, NodeFailure> {
        self.follow_or_fail(request, turn.into(), Waits::No).await
    }

    /// Follows redirects, and with [`Waits::No`] fails where several keys would have to wait.
    async fn follow_or_fail(
        &self,
        request: impl Fn() -> ScriptRequest,
        turn: Turn,
        waits: Waits,
    ) -> Result<ScriptReply, NodeFailure> {
        let first = request();
        let key = first.keys()[0];
        let (cluster, stats) = match &self.nodes {
            Nodes::One(alone) => return alone.ask(first, key, turn).await,
            Nodes::Cluster { cluster, stats, .. } => (cluster, stats),
        };
        // A single key is on one node, so its request only has to be sent alone.
        let waits = match first.keys().iter().all(|other| *other == key) {
            true => Waits::Yes,
            false => waits,
        };
        let slot = keys::slot(key);
        let redirections = Redirections {
            cluster,
            stats,
            slot,
            deadline: turn.since + self.reply_timeout,
            waits,
        };
        let mut next = Some(first);
        let send = move |node: Arc<Node>, redirected| {
            let request = next.take().unwrap_or_else(&request);
            async move { node.ask(request, key, Some(slot), redirected, turn).await }
        };
        redirections.follow(send).await
    }
}

impl Router {
    /// Runs any command on `key`; an error reply is a failure. For inspection and membership, not
    /// for decisions: it waits for the connection, and is never part of a batch.
    pub(crate) async fn command(
        &self,
        key: Key,
        words: &[&[u8]],
        since: Instant,
    ) -> Result<Reply, NodeFailure> {
        self.command_at(keys::slot(key), words, since).await
    }

    /// As [`Router::command`], on any key of `slot`.
    pub(crate) async fn command_at(
        &self,
        slot: u16,
        words: &[&[u8]],
        since: Instant,
    ) -> Result<Reply, NodeFailure> {
        let deadline = since + self.timeout;
        let (cluster, stats) = match &self.nodes {
            Nodes::One(alone) => return alone.command(words, deadline).await,
            Nodes::Cluster { cluster, stats, .. } => (cluster, stats),
        };
        // Before the topology is known, the command could go to any node, even an unreachable one.
        let _known = timeout_at(deadline, cluster.wait_for_topology()).await;
        let redirections = Redirections {
            cluster,
            stats,
            slot,
            deadline,
            waits: Waits::Yes,
        };
        let send = |node: Arc<Node>, redirected| async move {
            if redirected == Redirected::Ask {
                // If another caller's command comes between, the node redirects again, and this is
                // retried.
                let _said = node.command(&[b"ASKING"], deadline).await;
            }
            node.command(words, deadline).await
        };
        redirections.follow(send).await
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        if let Nodes::Cluster { keeper, .. } = &self.nodes {
            keeper.abort();
        }
    }
}

// === impl Node ===

impl Node {
    /// Sends a request on the key's own queue, so that requests on one key share a call.
    async fn ask(
        &self,
        request: ScriptRequest,
        key: Key,
        slot: Option<u16>,
        redirected: Redirected,
        turn: Turn,
    ) -> Result<ScriptReply, NodeFailure> {
        let bits = usize::try_from(key.bits() & 0xFFFF_FFFF).unwrap_or(0);
        let queue = &self.queues[bits % self.queues.len()];
        queue
            .ask(request, slot, redirected, turn)
            .await
            .map_err(|failure| NodeFailure {
                failure,
                address: self.address.clone(),
            })
    }
}

impl Node {
    /// Runs any command, on the first request queue.
    async fn command(&self, words: &[&[u8]], deadline: Instant) -> Result<Reply, NodeFailure> {
        let failed = |failure| NodeFailure {
            failure,
            address: self.address.clone(),
        };
        let reply = timeout_at(deadline, self.queues[0].command(words)).await;
        let reply = reply
            .unwrap_or(Err(Failure::OutcomeUnknown))
            .map_err(failed)?;
        let Reply::Error(text) = &reply else {
            return Ok(reply);
        };
        Err(failed(match Rejection::read(text) {
            Rejection::Elsewhere(failure) => failure,
            Rejection::NotMaster(error) | Rejection::Unable(error) => {
                self.stats.trouble.record_error(&self.address, &error);
                error.failure()
            }
            Rejection::NoScript => Failure::unreachable("the script is not loaded"),
        }))
    }
}

/// Opens the request queues of nodes.
struct QueueOpener {
    opener: Opener,
    caller: Caller,
    batch: usize,
    count: usize,
    reply_timeout: Duration,
    stats: Arc<Stats>,
}

impl QueueOpener {
    fn to(&self, target: Target) -> Node {
        let queues = (0..self.count).map(|_| {
            let task = ConnectionTask {
                opener: self.opener.clone(),
                target: target.clone(),
                caller: self.caller.clone(),
                batch: self.batch,
            };
            let stats = Arc::clone(&self.stats);
            RequestQueue::new(self.reply_timeout, stats, |shared| task.drive(shared))
        });
        Node {
            address: target.name().to_owned(),
            queues: queues.collect(),
            stats: Arc::clone(&self.stats),
        }
    }
}
