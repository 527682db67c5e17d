//! Keeps one lane's connection open: connects, and connects again when it breaks.

use std::future::pending;
use std::io;
use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep, sleep_until, timeout};

use crate::connection::{Connection, Opener};
use crate::lane::Shared;
use crate::script::Caller;
use crate::session::Session;

/// How long connecting, signing in and loading the scripts may take.
const OPEN_WITHIN: Duration = Duration::from_secs(1);
/// How long to pause after the first failure to connect, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Where a lane leads to.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// `host:port`.
    Fixed(String),
    /// Wherever the sentinels say that the master is.
    Watched {
        sentinels: Arc<[String]>,
        master: Arc<str>,
    },
}

/// Drives one lane.
pub(crate) struct Driver {
    pub(crate) opener: Opener,
    pub(crate) place: Place,
    pub(crate) caller: Caller,
    /// Decisions that one call makes at most.
    pub(crate) batch: usize,
}

// === impl Driver ===

impl Driver {
    /// Never ends; aborted when the lane is dropped.
    pub(crate) async fn drive(mut self, shared: Arc<Shared>) {
        let mut pause = Duration::ZERO;
        loop {
            match self.open(&shared, pause).await {
                Ok(connection) => {
                    shared.stats.connected();
                    shared.stats.trouble.over();
                    shared.set_broken(false);
                    // Not at once if the server hangs up on us right away, again and again.
                    pause = PAUSE_MIN;
                    self.caller.plain.clone_from(&connection.plain);
                    self.caller.general.clone_from(&connection.general);
                    let started = Instant::now();
                    let session = Session::new(&self, &shared, connection);
                    session.run().await;
                    if started.elapsed() > OPEN_WITHIN {
                        pause = Duration::ZERO;
                    }
                }
                Err(error) => {
                    shared.stats.trouble.told(&error);
                    shared.set_broken(true);
                    pause = (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                }
            }
        }
    }

    /// Opens a connection after a pause; meanwhile, those who wait too long are told.
    async fn open(&self, shared: &Shared, pause: Duration) -> io::Result<Connection> {
        let attempt = async {
            sleep(pause).await;
            let open = async { self.opener.open(&self.address().await?).await };
            timeout(OPEN_WITHIN, open).await?
        };
        tokio::pin!(attempt);
        loop {
            let deadline = shared.first_deadline();
            tokio::select! {
                biased;
                opened = &mut attempt => return opened,
                () = reached(deadline) => shared.expire(Instant::now()),
                () = shared.filled.notified(), if deadline.is_none() => {}
            }
        }
    }

    async fn address(&self) -> io::Result<String> {
        let (sentinels, master) = match &self.place {
            Place::Fixed(address) => return Ok(address.clone()),
            Place::Watched { sentinels, master } => (sentinels, master),
        };
        let unknown = || io::Error::other(format!("no sentinel knows a master called `{master}`"));
        let mut failed = unknown();
        for sentinel in sentinels.iter() {
            let words: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", master.as_bytes()];
            let asked = self.opener.ask_once(sentinel, &words);
            match timeout(OPEN_WITHIN / 4, asked).await {
                Ok(Ok(reply)) => {
                    if let [host, port] = reply.elements()
                        && let (Some(host), Some(port)) = (host.text(), port.text())
                    {
                        return Ok(format!("{host}:{port}"));
                    }
                    failed = unknown();
                }
                Ok(Err(error)) => failed = error,
                Err(elapsed) => failed = elapsed.into(),
            }
        }
        Err(failed)
    }
}

/// Never, if there is no deadline.
async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

// === impl Place ===

impl Place {
    /// For people.
    pub(crate) fn name(&self) -> &str {
        match self {
            Place::Fixed(address) => address,
            Place::Watched { master, .. } => master,
        }
    }
}
