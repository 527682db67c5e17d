//! What is measured of an upstream's load: response times, failures, and requests that wait.
//!
//! Nothing is measured while no limit depends on it. A request then costs one read of a flag.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::Response;
use tollgate_core::{Clock, Moment, Span, Timeline};
use tollgate_engine::Pace;
use tracing::info;

use crate::failure::Failure;
use crate::load_trend::{LoadFigures, LoadSample, LoadSettings, LoadTrend};
use crate::metrics::LoadMetrics;
use crate::request_body::Progress;
use crate::response_times::{BUCKETS, bucket_of};

/// Statuses of gRPC that correspond to 500, 503 and 504: deadline exceeded, internal, unavailable,
/// data loss. Only those in the head of a response are seen, as servers send them if there is no
/// message before.
const GRPC_FAILURES: [&str; 4] = ["4", "13", "14", "15"];

/// In place of a time that is not known.
const UNKNOWN: u64 = u64::MAX;

/// The load of one upstream.
pub(crate) struct UpstreamLoad {
    name: String,
    is_measured: AtomicBool,
    times: [AtomicU32; BUCKETS],
    failures: AtomicU32,
    waiting: AtomicU32,
    /// From how many nanoseconds on a request is slow, or [`UNKNOWN`].
    slow_from: AtomicU64,
    trend: Mutex<LoadTrend>,
    metrics: LoadMetrics,
}

/// A request whose response has not begun.
pub(crate) struct Waiting {
    load: Arc<UpstreamLoad>,
    clock: Arc<dyn Clock>,
    began: Moment,
    /// Of its body; `None` if it has none.
    progress: Option<Arc<Progress>>,
    has_ended: bool,
}

// === impl UpstreamLoad ===

impl UpstreamLoad {
    pub(crate) fn new(name: &str, metrics: LoadMetrics) -> UpstreamLoad {
        UpstreamLoad {
            name: name.to_owned(),
            is_measured: AtomicBool::new(false),
            times: [const { AtomicU32::new(0) }; BUCKETS],
            failures: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            slow_from: AtomicU64::new(UNKNOWN),
            trend: Mutex::new(LoadTrend::new()),
            metrics,
        }
    }

    /// A request is about to be sent. `None` if nothing is measured.
    pub(crate) fn begin(
        self: &Arc<Self>,
        clock: &Arc<dyn Clock>,
        progress: Option<Arc<Progress>>,
    ) -> Option<Waiting> {
        // Relaxed, as everywhere here: each word is a figure on its own, and publishes nothing.
        if !self.is_measured.load(Ordering::Relaxed) {
            return None;
        }
        // A body may make a request wait for its client, so one that has a body shows no stall.
        if progress.is_none() {
            self.waiting.fetch_add(1, Ordering::Relaxed);
        }
        Some(Waiting {
            load: Arc::clone(self),
            began: clock.on(Timeline::Monotonic),
            clock: Arc::clone(clock),
            progress,
            has_ended: false,
        })
    }

    /// A request has failed, because of the upstream.
    pub(crate) fn count_failure(&self) {
        if self.is_measured.load(Ordering::Relaxed) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were counted since the last sample.
    #[cfg(test)]
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    fn record(&self, time: Span) {
        self.times[bucket_of(time)].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a sample at `now`; measuring begins with the first. Whether there is headroom.
    pub(crate) fn sample(&self, settings: &LoadSettings, pace: Pace, now: Moment) -> bool {
        let mut trend = self.trend.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_measured.swap(true, Ordering::Relaxed) {
            // A request that was in flight when the last measurement ended may have ended later.
            self.take();
        }
        if trend.has_sample_of(now) {
            return trend.has_headroom();
        }
        let had_headroom = trend.has_headroom();
        let figures = trend.step(&self.take(), settings, pace, now);
        let slow_from = trend.slow_from(settings).map_or(UNKNOWN, Span::as_nanos);
        self.slow_from.store(slow_from, Ordering::Relaxed);
        self.metrics.record(&figures);
        if figures.has_headroom != had_headroom {
            self.log(&figures);
        }
        figures.has_headroom
    }

    /// Forgets everything, because no limit depends on it any more.
    pub(crate) fn rest(&self) {
        if self.is_measured.swap(false, Ordering::Relaxed) {
            let mut trend = self.trend.lock().unwrap_or_else(PoisonError::into_inner);
            *trend = LoadTrend::new();
            self.slow_from.store(UNKNOWN, Ordering::Relaxed);
            self.take();
            self.metrics.remove();
        }
    }

    /// What was measured since the last sample.
    fn take(&self) -> LoadSample {
        let mut sample = LoadSample::empty();
        for (taken, times) in sample.times.iter_mut().zip(&self.times) {
            *taken = times.swap(0, Ordering::Relaxed);
        }
        sample.failures = self.failures.swap(0, Ordering::Relaxed);
        sample.waiting = self.waiting.load(Ordering::Relaxed);
        sample
    }

    fn log(&self, figures: &LoadFigures) {
        let LoadFigures {
            recent_time,
            baseline_time,
            recent_errors,
            baseline_errors,
            has_headroom,
        } = figures;
        info!(
            upstream = self.name,
            has_headroom,
            recent_time = ?recent_time.map(Span::to_duration),
            baseline_time = ?baseline_time.map(Span::to_duration),
            ?recent_errors,
            baseline_errors,
            "headroom of an upstream, errors in parts of a million"
        );
    }
}

impl fmt::Debug for UpstreamLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("UpstreamLoad");
        shown.field("trend", &self.trend).finish_non_exhaustive()
    }
}

// === impl Waiting ===

impl Waiting {
    /// The response has begun, or there is none. Only what the upstream is to blame for is a
    /// failure.
    pub(crate) fn end<B>(mut self, sent: Result<&Response<B>, &Failure>) {
        self.has_ended = true;
        match sent {
            Ok(response) if is_failure(response) => self.load.count_failure(),
            Ok(_) => self.load.record(self.time()),
            Err(failure) if failure.shows_load() => self.load.count_failure(),
            Err(_) => {}
        }
    }

    /// How long the upstream has had it, without the time in which its body arrived.
    fn time(&self) -> Span {
        let now = self.clock.on(Timeline::Monotonic);
        let body = self
            .progress
            .as_ref()
            .map(|progress| progress.arrival_time());
        let body = body.map_or(Span::ZERO, Span::from_duration);
        now.since(self.began).minus(body)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.progress.is_none() {
            self.load.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        if self.has_ended {
            return;
        }
        // The client has gone away. That shows how slow the upstream is if it would have been too
        // slow already, unless it was the client that was waited for.
        let progress = self.progress.as_ref();
        if progress.is_some_and(|progress| progress.waits_for_client()) {
            return;
        }
        let time = self.time();
        if time.as_nanos() >= self.load.slow_from.load(Ordering::Relaxed) {
            self.load.record(time);
        }
    }
}

fn is_failure<B>(response: &Response<B>) -> bool {
    let status = response.headers().get("grpc-status");
    let is_of_grpc = |status| GRPC_FAILURES.iter().any(|failure| status == failure);
    response.status().is_server_error() || status.is_some_and(is_of_grpc)
}

#[cfg(test)]
mod tests;
