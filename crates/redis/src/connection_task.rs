//! The task that keeps a request queue's connection open, and reconnects when it breaks.

use std::future::pending;
use std::io;
use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep, sleep_until, timeout_at};

use crate::connection::{Connection, Hello, Kind, Opener, Role};
use crate::request_queue::Shared;
use crate::script::Caller;
use crate::sentinel::NamedPrimary;
use crate::session::{End, Session};
use crate::stats::Stats;

/// How long connecting, authenticating and loading the scripts may take.
const OPEN_WITHIN: Duration = Duration::from_secs(1);
/// The backoff after the first failure to connect, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The server that a request queue connects to.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The only server, at `host:port`.
    Fixed(Arc<str>),
    /// A node of a Cluster, at `host:port`.
    Member(Arc<str>),
    /// The server that the sentinels name as the primary.
    Watched {
        named: NamedPrimary,
        master: Arc<str>,
    },
}

/// The task of one request queue.
pub(crate) struct ConnectionTask {
    pub(crate) opener: Opener,
    pub(crate) target: Target,
    pub(crate) caller: Caller,
    /// The most decisions in one script call.
    pub(crate) batch: usize,
}

/// The address of the last attempt to connect. What is wrong there is no longer of interest once
/// another address takes its place, or the task ends.
struct Tried<'s> {
    stats: &'s Stats,
    address: Option<Arc<str>>,
}

/// Why there is no connection, and to which address.
type NotOpened = (Arc<str>, io::Error);

// === impl ConnectionTask ===

impl ConnectionTask {
    /// Runs until it is aborted, when the request queue is dropped.
    pub(crate) async fn drive(mut self, shared: Arc<Shared>) {
        let mut pause = Duration::ZERO;
        let mut last_lost = None;
        let mut tried = Tried::new(&shared.stats);
        loop {
            let (address, connection) = match self.open(&shared, pause).await {
                Ok((address, connection)) => {
                    tried.replace(&address);
                    (address, connection)
                }
                Err((address, error)) => {
                    tried.replace(&address);
                    shared.stats.trouble.record_failure(&address, &error);
                    let reply = error.get_ref().and_then(|reply| reply.downcast_ref());
                    if let Some(reply) = reply {
                        shared.stats.trouble.record_error(&address, reply);
                    }
                    self.target.unusable();
                    shared.set_broken(true);
                    pause = longer(pause);
                    continue;
                }
            };
            shared.stats.count_connection();
            shared.stats.trouble.clear_failure(&address);
            // If requests were lost, only a decision shows that the server decides again.
            if last_lost.is_none() {
                shared.set_broken(false);
            }
            self.caller.scripts.clone_from(&connection.scripts);
            let started = Instant::now();
            let session = Session::new(&self, &shared, connection, &address, &mut last_lost);
            let ended = session.run().await;
            pause = match ended {
                End::Superseded => Duration::ZERO,
                _ if started.elapsed() > OPEN_WITHIN => Duration::ZERO,
                // Backs off, in case the server closes every new connection.
                End::Broken { was_useful: true } => PAUSE_MIN,
                // A connection that was accepted and never useful counts as a failure to connect.
                End::Broken { was_useful: false } => longer(pause),
            };
        }
    }

    /// Opens a connection after a pause; meanwhile, queued requests past their deadline fail.
    async fn open(
        &self,
        shared: &Shared,
        pause: Duration,
    ) -> Result<(Arc<str>, Connection), NotOpened> {
        let attempt = async {
            sleep(pause).await;
            self.attempt().await
        };
        tokio::pin!(attempt);
        loop {
            let deadline = shared.first_deadline();
            tokio::select! {
                biased;
                opened = &mut attempt => return opened,
                () = wait_until(deadline) => shared.expire(Instant::now()),
                () = shared.filled.notified() => {}
            }
        }
    }

    /// Makes one attempt to open a connection, within [`OPEN_WITHIN`]. With sentinels, it first
    /// waits until they name the primary.
    async fn attempt(&self) -> Result<(Arc<str>, Connection), NotOpened> {
        let deadline = Instant::now() + OPEN_WITHIN;
        let address = match &self.target {
            Target::Fixed(address) | Target::Member(address) => Arc::clone(address),
            Target::Watched { named, master } => {
                let named = timeout_at(deadline, named.address()).await;
                named.map_err(|_| {
                    let text = "no sentinel names this primary";
                    (Arc::clone(master), io::Error::other(text))
                })?
            }
        };
        let prefix = match &self.target {
            Target::Member(_) => Some(&*self.caller.prefix),
            Target::Fixed(_) | Target::Watched { .. } => None,
        };
        let opened = self.opener.open(&address, prefix, deadline).await;
        let opened = opened.and_then(|connection| {
            self.target.check(&connection.hello)?;
            Ok(connection)
        });
        match opened {
            Ok(connection) => Ok((address, connection)),
            Err(error) => Err((address, error)),
        }
    }
}

// === impl Tried ===

impl Tried<'_> {
    const fn new(stats: &Stats) -> Tried<'_> {
        Tried {
            stats,
            address: None,
        }
    }

    fn replace(&mut self, address: &Arc<str>) {
        if self.address.as_ref() != Some(address) {
            self.clear();
            self.address = Some(Arc::clone(address));
        }
    }

    fn clear(&self) {
        if let Some(address) = &self.address {
            self.stats.trouble.clear_failure(address);
        }
    }
}

impl Drop for Tried<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

fn longer(pause: Duration) -> Duration {
    (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX)
}

/// Sleeps until the deadline; for ever, if there is none.
async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

// === impl Target ===

impl Target {
    /// The name in errors and logs.
    pub(crate) fn name(&self) -> &str {
        match self {
            Target::Fixed(address) | Target::Member(address) => address,
            Target::Watched { master, .. } => master,
        }
    }

    /// Waits until the sentinels name another server than `address`; for ever without sentinels.
    pub(crate) async fn wait_until_superseded(&self, address: &str) {
        match self {
            Target::Fixed(_) | Target::Member(_) => pending().await,
            Target::Watched { named, .. } => named.wait_for_another(address).await,
        }
    }

    /// Checks that a server with this role and mode may be used here.
    ///
    /// # Errors
    ///
    /// What kind of server it is instead.
    pub(crate) fn check(&self, hello: &Hello) -> io::Result<()> {
        let reply = |what: &str| Err(io::Error::other(what));
        match (self, hello.kind, hello.role) {
            (_, Some(Kind::Sentinel), _) => reply("it is a sentinel: name it in `sentinel`"),
            (Target::Member(_), Some(Kind::Standalone), _) => {
                reply("it is not a node of a Cluster: name it in `url`")
            }
            // Replicas of a Cluster know the topology as well as primaries do.
            (Target::Member(_), ..) => Ok(()),
            (Target::Fixed(_), _, Some(Role::Replica)) => {
                reply("it is a replica, which rejects writes: name its primary, or use `sentinel`")
            }
            (Target::Watched { .. }, _, Some(Role::Replica)) => {
                reply("the sentinels name it the primary, but it is a replica")
            }
            _ => Ok(()),
        }
    }

    /// Notes that connecting failed.
    fn unusable(&self) {
        if let Target::Watched { named, .. } = self {
            named.reset_epoch();
        }
    }
}

#[cfg(test)]
mod tests;
