//! The dashboard: what the service does now, live in a browser.
//!
//! One snapshot a second is made for all open pages, and none without one. A page that reads slowly
//! misses snapshots; one that reads nothing is closed after `write_timeout`, as every connection.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use http::StatusCode;
use http::header::CACHE_CONTROL;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tollgate_engine::Engine;
use tollgate_listen::ShutdownSignal;

use crate::metrics::Metrics;
use crate::options::Options;
use crate::reply::{Failure, reply};

mod assets;

mod budgets;

mod gateway;

mod keys;

mod snapshot;

mod stores;

pub(crate) use assets::routes as assets;
use snapshot::Snapshots;

/// The most pages that are open at once.
pub(crate) const PAGES_MAX: usize = 16;
/// How often there is a snapshot.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// How long a stream lasts. The page then opens the next one, so that connections do not live for
/// days.
const STREAM_MAX: Duration = Duration::from_secs(15 * 60);
/// The media type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";

/// Makes snapshots for the pages that are open.
pub(crate) struct Dashboard {
    engine: Arc<Engine>,
    metrics: Arc<Metrics>,
    options: Options,
    started: Instant,
    pages: Mutex<Pages>,
    /// The latest snapshot as an event; empty before the first one.
    latest: watch::Sender<Bytes>,
}

#[derive(Debug, Default)]
struct Pages {
    open: usize,
    /// Whether a task makes snapshots.
    has_task: bool,
}

/// An open page; it is counted until this is dropped.
struct Page(Arc<Dashboard>);

// === impl Dashboard ===

impl Dashboard {
    pub(crate) fn new(engine: Arc<Engine>, metrics: Arc<Metrics>, options: Options) -> Dashboard {
        Dashboard {
            engine,
            metrics,
            options,
            started: Instant::now(),
            pages: Mutex::default(),
            latest: watch::Sender::new(Bytes::new()),
        }
    }

    /// Snapshots as server-sent events, from now on, for as long as the page `is_authorized`: its
    /// token may be revoked.
    ///
    /// # Errors
    ///
    /// 503 if there are [`PAGES_MAX`] pages already.
    pub(crate) fn events(
        self: &Arc<Self>,
        shutdown: ShutdownSignal,
        is_authorized: impl Fn() -> bool + Send + 'static,
    ) -> Result<Response, Failure> {
        let page = Dashboard::open(self)?;
        let mut latest = self.latest.subscribe();
        latest.mark_changed();
        let ends = Instant::now() + STREAM_MAX;
        let stream = unfold(
            (page, latest, shutdown, is_authorized),
            move |(page, mut latest, mut shutdown, is_authorized)| async move {
                loop {
                    let rest = ends.saturating_duration_since(Instant::now());
                    let changed = tokio::select! {
                        changed = timeout(rest, latest.changed()) => matches!(changed, Ok(Ok(()))),
                        () = shutdown.wait() => false,
                    };
                    if !changed || !is_authorized() {
                        return None;
                    }
                    let event = latest.borrow_and_update().clone();
                    if !event.is_empty() {
                        let state = (page, latest, shutdown, is_authorized);
                        return Some((Ok::<_, Infallible>(event), state));
                    }
                }
            },
        );
        let mut response = reply(StatusCode::OK, EVENT_STREAM, Body::from_stream(stream));
        let no_store = http::HeaderValue::from_static("no-store");
        response.headers_mut().insert(CACHE_CONTROL, no_store);
        Ok(response)
    }

    /// Counts a page, and starts to make snapshots if it is the first one.
    fn open(dashboard: &Arc<Dashboard>) -> Result<Page, Failure> {
        let mut pages = dashboard.pages();
        if pages.open >= PAGES_MAX {
            let detail = format!("{PAGES_MAX} dashboards are open already; close one of them");
            let status = StatusCode::SERVICE_UNAVAILABLE;
            return Err(Failure::new("too_many_pages", status, detail));
        }
        pages.open += 1;
        if !pages.has_task {
            pages.has_task = true;
            tokio::spawn(Arc::clone(dashboard).make_snapshots());
        }
        drop(pages);
        Ok(Page(Arc::clone(dashboard)))
    }

    /// Makes snapshots until no page is open.
    async fn make_snapshots(self: Arc<Self>) {
        let mut snapshots = Snapshots::new(&self.engine, &self.metrics, self.options);
        let mut ticks = interval(SNAPSHOT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            {
                let mut pages = self.pages();
                if pages.open == 0 {
                    pages.has_task = false;
                    self.latest.send_replace(Bytes::new());
                    return;
                }
            }
            let snapshot = snapshots.make(self.started.elapsed()).await;
            let event = format!("event: snapshot\ndata: {snapshot}\n\n");
            self.latest.send_replace(Bytes::from(event));
        }
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.0.pages().open -= 1;
    }
}
