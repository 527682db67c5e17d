//! The primary's address, from the sentinels.
//!
//! Every sentinel is queried once a second, and whenever it announces a change: a sentinel that
//! leads a failover names the new primary some seconds before the old one is demoted. Each answer
//! has an epoch that grows with every failover, so a partitioned sentinel with outdated information
//! cannot switch us back. If the primary cannot be used, the epoch is reset, and any sentinel's
//! answer counts.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::connection::{Link, Opener};
use crate::resp::{self, Reply};
use crate::stats::Stats;
use crate::watched::Watched;

/// The most sentinels that are queried: the first ones configured.
pub(crate) const SENTINELS_MAX: usize = 16;
/// The interval between queries of a sentinel that announces nothing.
const QUERY_EVERY: Duration = Duration::from_secs(1);
/// How long connecting to a sentinel, and each of its replies, may take.
const REPLY_WITHIN: Duration = Duration::from_millis(500);
/// The backoff before reconnecting to a sentinel.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The events of a new primary: a replica was promoted, the failover ended, or the sentinel learned
/// of it from another one.
const EVENTS: [&[u8]; 3] = [
    b"+promoted-slave",
    b"+switch-master",
    b"+config-update-from",
];

/// The primary that the sentinels name; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedPrimary(Arc<Watched<View>>);

/// The sentinels' answers so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    address: Option<Arc<str>>,
    /// The epoch of the failover that promoted it.
    epoch: u64,
}

/// The task that queries one sentinel.
struct Sentinel {
    opener: Opener,
    address: String,
    master: Arc<str>,
    named: NamedPrimary,
    stats: Arc<Stats>,
}

/// Queries these sentinels for as long as the tasks are held.
pub(crate) fn watch(
    opener: &Opener,
    addresses: &[String],
    master: &Arc<str>,
    stats: &Arc<Stats>,
) -> (NamedPrimary, JoinSet<()>) {
    let named = NamedPrimary::default();
    let mut tasks = JoinSet::new();
    for address in addresses.iter().take(SENTINELS_MAX) {
        let sentinel = Sentinel {
            opener: opener.clone(),
            address: address.clone(),
            master: Arc::clone(master),
            named: named.clone(),
            stats: Arc::clone(stats),
        };
        tasks.spawn(sentinel.watch());
    }
    (named, tasks)
}

// === impl NamedPrimary ===

impl NamedPrimary {
    /// The primary's address; waits until a sentinel has named one.
    pub(crate) async fn address(&self) -> Arc<str> {
        self.0.wait_for(|view| view.address.clone()).await
    }

    /// Waits until the sentinels name another primary than `address`.
    pub(crate) async fn wait_for_another(&self, address: &str) {
        let other = |view: &View| {
            let named = view.address.as_deref();
            named.filter(|now| *now != address).map(|_| ())
        };
        self.0.wait_for(other).await;
    }

    /// Accepts any sentinel's answer from now on, since the primary cannot be used.
    pub(crate) fn reset_epoch(&self) {
        self.0.modify(|view| {
            view.epoch = 0;
            false
        });
    }

    /// Applies the answer of a sentinel that knows of no failover.
    #[cfg(test)]
    pub(crate) fn name(&self, address: &str) {
        self.reset_epoch();
        let _former = self.offer(address, 0);
    }

    /// Applies a sentinel's answer. Returns the former primary, if it was another.
    fn offer(&self, address: &str, epoch: u64) -> Option<Arc<str>> {
        let mut former = None;
        self.0.modify(|view| {
            if epoch < view.epoch {
                return false;
            }
            view.epoch = epoch;
            if view.address.as_deref() == Some(address) {
                return false;
            }
            former = view.address.replace(Arc::from(address));
            true
        });
        former
    }
}

// === impl Sentinel ===

impl Sentinel {
    /// Never returns.
    async fn watch(self) {
        let mut pause = PAUSE_MIN;
        loop {
            let since = Instant::now();
            let Err(error) = self.follow().await;
            self.stats.trouble.record_failure(&self.address, &error);
            pause = match since.elapsed() > QUERY_EVERY {
                true => PAUSE_MIN,
                false => (pause * 2).min(PAUSE_MAX),
            };
            sleep(pause).await;
        }
    }

    /// Queries the sentinel repeatedly, until that fails.
    async fn follow(&self) -> io::Result<Infallible> {
        let deadline = Instant::now() + REPLY_WITHIN;
        let mut queries = self.opener.link(&self.address, deadline).await?;
        // After SUBSCRIBE, a connection accepts no other commands.
        let mut announcements = self.opener.link(&self.address, deadline).await?;
        let mut subscribe = BytesMut::new();
        resp::command(&mut subscribe, 1 + EVENTS.len());
        resp::word(&mut subscribe, b"SUBSCRIBE");
        EVENTS
            .iter()
            .for_each(|event| resp::word(&mut subscribe, event));
        timeout(REPLY_WITHIN, announcements.send(&subscribe)).await??;
        loop {
            timeout(REPLY_WITHIN, self.query(&mut queries)).await??;
            self.stats.trouble.clear_failure(&self.address);
            if let Ok(event) = timeout(QUERY_EVERY, announcements.next()).await {
                event?;
            }
        }
    }

    /// Queries the primary's address and its epoch.
    async fn query(&self, link: &mut Link) -> io::Result<()> {
        let mut out = BytesMut::new();
        for command in [&b"GET-MASTER-ADDR-BY-NAME"[..], b"MASTER"] {
            resp::command(&mut out, 3);
            resp::word(&mut out, b"SENTINEL");
            resp::word(&mut out, command);
            resp::word(&mut out, self.master.as_bytes());
        }
        link.send(&out).await?;
        let (address, about) = (link.next().await?, link.next().await?);
        let [host, port] = address.elements() else {
            return Err(self.unexpected_reply(&address));
        };
        let (Some(host), Some(port)) = (host.text(), port.text()) else {
            return Err(self.unexpected_reply(&address));
        };
        let address = match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        if let Some(former) = self.named.offer(&address, epoch(&about)) {
            self.stats.trouble.record_new_primary(&former, &address);
        }
        Ok(())
    }

    fn unexpected_reply(&self, reply: &Reply) -> io::Error {
        match reply {
            Reply::Error(text) => io::Error::other(resp::printable(text)),
            _ => {
                let master = &self.master;
                io::Error::other(format!("the sentinel knows no master called `{master}`"))
            }
        }
    }
}

/// The epoch in the reply to `SENTINEL MASTER`; 0 if there is none.
fn epoch(about: &Reply) -> u64 {
    let mut pairs = about.elements().chunks_exact(2);
    let epoch = pairs.find_map(|pair| match pair[0].text()? {
        "config-epoch" => pair[1].text()?.parse().ok(),
        _ => None,
    });
    epoch.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn named() -> NamedPrimary {
        NamedPrimary(Arc::default())
    }

    #[tokio::test]
    async fn a_sentinel_that_knows_less_leads_nobody_back() {
        let named = named();
        assert_eq!(named.offer("a:1", 3), None);
        assert_eq!(named.offer("b:1", 4).as_deref(), Some("a:1"));
        assert_eq!(named.offer("a:1", 3), None);
        assert_eq!(&*named.address().await, "b:1");
        named.reset_epoch();
        assert_eq!(named.offer("a:1", 3).as_deref(), Some("b:1"));
        assert_eq!(&*named.address().await, "a:1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_superseded_server_is_left_at_once_and_no_other() {
        let named = named();
        named.offer("a:1", 1);
        let early = timeout(Duration::from_secs(9), named.wait_for_another("a:1")).await;
        assert!(early.is_err());
        named.offer("b:1", 2);
        named.wait_for_another("a:1").await;
    }
}
