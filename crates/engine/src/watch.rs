//! Watches the files of rules and settings, and reloads when they change.
//!
//! Directories are watched, because editors and Kubernetes replace files instead of writing to
//! them: the directory of each file, the directory that a link points to, and each directory of
//! rules together with its parent. Events are debounced before anything is read. Because links may
//! point elsewhere afterwards, all watches are set up again after each reload. Changes that no
//! watch reports are found by polling every [`POLL_EVERY`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{error, warn};

use crate::outcome::Outcome;
use crate::reload::{Reloader, RuleSource, Why};
use crate::watched_files::WatchedFiles;

/// How long nothing may change before files are read.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The longest that a change waits while further ones keep coming.
const DEBOUNCE_MAX: Duration = Duration::from_secs(1);
/// How often files are read although no watch reports a change.
const POLL_EVERY: Duration = Duration::from_secs(60);
/// The most orders to reload that may be queued.
pub const ORDERS_MAX: usize = 8;

/// An order to reload now; the outcome is sent back.
pub type Order = oneshot::Sender<Outcome>;

/// Reloads whenever files change or an order comes, until `stop` is ready.
pub async fn watch_rules<S: RuleSource>(
    mut reloader: Reloader<S>,
    mut orders: mpsc::Receiver<Order>,
    stop: impl Future<Output = ()>,
) {
    let mut stop = std::pin::pin!(stop);
    let changed = Arc::new(Notify::new());
    let mut watching = watch(reloader.watched_paths(), &changed);
    // Files may have changed between the first load and now.
    changed.notify_one();
    loop {
        let order = tokio::select! {
            // Disabled when there is nobody left to order a reload.
            Some(order) = orders.recv() => Some(order),
            () = changed.notified() => {
                debounce(&changed).await;
                None
            }
            () = sleep(POLL_EVERY) => None,
            () = &mut stop => return,
        };
        // Before the reload, so that a change during it is noticed.
        let watching_next = watch(reloader.watched_paths(), &changed);
        let why = order.as_ref().map_or(Why::Noticed, |_| Why::Ordered);
        let read = spawn_blocking(move || {
            let outcome = reloader.reload(why);
            (reloader, outcome)
        });
        let outcome;
        match read.await {
            Ok(done) => (reloader, outcome) = done,
            Err(error) => {
                error!(%error, "the reload panicked; restart the service to reload rules again");
                return;
            }
        }
        watching = watching_next.or(watching);
        if let Some(order) = order {
            // The sender may no longer wait for the outcome.
            let _ = order.send(outcome);
        }
    }
}

/// Waits until nothing has changed for [`DEBOUNCE`].
async fn debounce(changed: &Notify) {
    let latest = Instant::now() + DEBOUNCE_MAX;
    let quiet = async { while timeout(DEBOUNCE, changed.notified()).await.is_ok() {} };
    let _ = timeout_at(latest, quiet).await;
}

/// Watches the directories of `paths`, and notifies `changed`; `None` if that is not possible.
fn watch<'a>(
    paths: impl Iterator<Item = &'a PathBuf>,
    changed: &Arc<Notify>,
) -> Option<RecommendedWatcher> {
    let notified = Arc::clone(changed);
    let watched = WatchedFiles::at(paths);
    let directories = watched.directories().clone();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // An error, or an event without a path, may mean that events were lost.
        if event.is_ok_and(|event| is_reading(&event.kind) || is_elsewhere(&event, &watched)) {
            return;
        }
        notified.notify_one();
    });
    let mut watcher = match watcher {
        Ok(watcher) => watcher,
        Err(error) => {
            warn!(%error, every = ?POLL_EVERY, "cannot watch rules; polling them instead");
            return None;
        }
    };
    for directory in directories {
        if let Err(error) = watcher.watch(&directory, RecursiveMode::NonRecursive) {
            let directory = directory.display();
            warn!(%error, %directory, every = ?POLL_EVERY, "cannot watch; polling instead");
        }
    }
    Some(watcher)
}

/// Whether a file was only read, as a reload does itself.
fn is_reading(kind: &EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => false,
        EventKind::Access(_) => true,
        _ => false,
    }
}

/// Whether only files have changed that are not read here.
fn is_elsewhere(event: &notify::Event, watched: &WatchedFiles) -> bool {
    let mut paths = event.paths.iter();
    !event.paths.is_empty() && !paths.any(|path| watched.may_concern(path))
}
