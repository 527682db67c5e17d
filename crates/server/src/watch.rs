//! Hears when the files of rules and settings change.
//!
//! What is watched are directories, because editors and Kubernetes replace files rather than write
//! them: the directory of each file, where links lead as well, and each directory of rules together
//! with the one above it. A change is followed by a quiet moment before anything is read. Since
//! links may lead elsewhere afterwards, everything is watched anew each time; and what no watch
//! reports is found by looking every [`LOOK_EVERY`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tollgate_listen::Stopping;
use tracing::{error, warn};

use crate::reload::{Outcome, Reader, Why};

/// How long nothing may change before files are read.
const QUIET: Duration = Duration::from_millis(100);
/// How long a change waits for quiet at most.
const QUIET_WITHIN: Duration = Duration::from_secs(1);
/// How often files are looked at without being told.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// The most orders to read again that wait.
pub(crate) const ORDERS_MAX: usize = 8;

/// An order to read again now, and where to say what came of it.
pub(crate) type Order = oneshot::Sender<Outcome>;

/// Reads rules again whenever they change or somebody orders it, until it is time to stop.
pub(crate) async fn keep(
    mut reader: Reader,
    mut orders: mpsc::Receiver<Order>,
    mut stopping: Stopping,
) {
    let changed = Arc::new(Notify::new());
    let mut watching = watch(reader.paths(), &changed);
    // What changed between the first reading and now, nobody has told.
    changed.notify_one();
    loop {
        let order = tokio::select! {
            order = orders.recv() => order,
            () = changed.notified() => {
                settle(&changed).await;
                None
            }
            () = sleep(LOOK_EVERY) => None,
            () = stopping.wait() => return,
        };
        // First, so that what changes while we read is heard.
        let watching_next = watch(reader.paths(), &changed);
        let why = order.as_ref().map_or(Why::Noticed, |_| Why::Ordered);
        let read = spawn_blocking(move || {
            let outcome = reader.again(why);
            (reader, outcome)
        });
        let outcome;
        match read.await {
            Ok(done) => (reader, outcome) = done,
            Err(error) => {
                error!(%error, "reading rules failed; they stay as they are from now on");
                return;
            }
        }
        watching = watching_next.or(watching);
        if let Some(order) = order {
            // Whoever ordered it may have gone.
            let _ = order.send(outcome);
        }
    }
}

/// Waits until nothing has changed for a moment.
async fn settle(changed: &Notify) {
    let latest = Instant::now() + QUIET_WITHIN;
    let quiet = async { while timeout(QUIET, changed.notified()).await.is_ok() {} };
    let _ = timeout_at(latest, quiet).await;
}

fn watch<'a>(
    paths: impl Iterator<Item = &'a PathBuf>,
    changed: &Arc<Notify>,
) -> Option<RecommendedWatcher> {
    let heard = Arc::clone(changed);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // An error may stand for lost events.
        if event.is_ok_and(|event| is_reading(&event.kind)) {
            return;
        }
        heard.notify_one();
    });
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            warn!(%error, every = ?LOOK_EVERY, "cannot watch rules; looking at them instead");
            return None;
        }
    };
    for directory in directories(paths) {
        if let Err(error) = watcher.watch(&directory, RecursiveMode::NonRecursive) {
            let directory = directory.display();
            warn!(%error, %directory, every = ?LOOK_EVERY, "cannot watch; looking instead");
        }
    }
    Some(watcher)
}

/// Whether somebody only looked, as we do ourselves.
fn is_reading(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}

fn directories<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> BTreeSet<PathBuf> {
    let mut directories = BTreeSet::new();
    for path in paths {
        directories.insert(parent(path));
        if path.is_dir() {
            directories.insert(path.clone());
        } else if let Ok(real) = path.canonicalize() {
            directories.insert(parent(&real));
        }
    }
    directories
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
