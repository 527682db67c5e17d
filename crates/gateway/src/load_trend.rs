//! Whether an upstream is under more load than usual: how its response times and its errors of
//! late compare with its own baseline.
//!
//! Everything is a function of the samples and their times, in integers. With samples Δ apart:
//!
//! * A request of an earlier sample counts w' = w · τ/(τ+Δ), where τ is `window`: exponential decay
//!   (as in Cormode and others, "Forward decay", 2009), in the form that no Δ overshoots. So the
//!   requests of about the last τ count.
//! * The response time t is the [`QUANTILE`] of the requests that count; the error share e is the
//!   part of them that failed.
//! * The baselines b follow them: b' = b + (x − b) · Δ/(T+Δ), an exponential average, where T is
//!   `baseline`, or the age of the baseline if it is younger. While the level is not low, a
//!   baseline rises as if T were [`RISE_SLOWDOWN`] times as long: it does not learn an overload as
//!   usual, yet an upstream that stays slower has a new baseline at last. However much slower,
//!   b reaches 2/3 of x after ln 3 · 36 · T, which is 6.6 hours with the defaults.
//! * The pressures are t/b, as the gradient of Envoy's adaptive concurrency filter and of Netflix's
//!   `Gradient2Limit`, and e − b. Each has two thresholds, and [`Hysteresis`] follows from them.
//!
//! While fewer than `samples` requests count, there are no pressures: the level is low, so that an
//! idle upstream has headroom, and the baselines do not move. One exception: if at least `samples`
//! requests wait, and none has ended during `window` and the time of a slow response, the upstream
//! counts as overloaded.

use tollgate_core::{Moment, Span};
use tollgate_engine::{Hysteresis, Level, Pace, Thresholds};

use crate::response_times::{BUCKETS, time_of};

/// A tenth of the requests takes longer than this quantile, in parts of a thousand. An overload by
/// queueing makes all requests slower; one of what only some requests need, such as a database
/// behind a cache, is seen if a tenth of them need it.
const QUANTILE: u128 = 900;
/// How much slower a baseline rises while the level is not low.
const RISE_SLOWDOWN: u64 = 36;
/// A request counts 2^20 when it is new, so that decayed ones are not rounded away.
const UNIT_BITS: u32 = 20;
/// A whole, in parts of a million.
const MILLION: u64 = 1_000_000;

/// `headroom.upstream`: up to which load of an upstream there is headroom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSettings {
    /// The response times up to which headroom may begin, and from which on there is none, in
    /// thousandths of the baseline. Default: 150% and 200%.
    pub latency: Thresholds,
    /// The same for the share of requests that fail: by how much it is above its baseline, in
    /// thousandths of all requests. Default: 1% and 5%.
    pub errors: Thresholds,
    /// For how long requests count as recent. Default: 10 s.
    pub window: Span,
    /// How long the baselines take to follow a change. Default: 10 min.
    pub baseline: Span,
    /// The fewest requests in the window from which load is judged. Default: 50.
    pub samples: u32,
}

/// What an upstream did between two samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadSample {
    /// Requests that were answered, by response time.
    pub(crate) times: [u32; BUCKETS],
    /// Requests that failed.
    pub(crate) failures: u32,
    /// Requests whose response has not begun.
    pub(crate) waiting: u32,
}

/// What the samples of an upstream amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadFigures {
    /// `None` if too few requests were answered.
    pub(crate) recent_time: Option<Span>,
    /// `None` before the first one is known.
    pub(crate) baseline_time: Option<Span>,
    /// In parts of a million; `None` if there were too few requests.
    pub(crate) recent_errors: Option<u64>,
    pub(crate) baseline_errors: u64,
    pub(crate) has_headroom: bool,
}

/// What is known of an upstream's load.
#[derive(Debug)]
pub(crate) struct LoadTrend {
    /// The requests that count, by response time.
    weights: [u64; BUCKETS],
    failed: u64,
    time: Baseline,
    errors: Baseline,
    sampled_at: Option<Moment>,
    /// Since when requests wait and none has ended.
    unanswered_since: Option<Moment>,
    state: Hysteresis,
}

/// What a figure usually is.
#[derive(Clone, Copy, Debug, Default)]
struct Baseline {
    value: u64,
    /// How long it has followed, up to the time that it needs.
    age: Span,
    is_known: bool,
}

// === impl LoadSettings ===

impl Default for LoadSettings {
    fn default() -> LoadSettings {
        LoadSettings {
            latency: Thresholds {
                low: 1500,
                high: 2000,
            },
            errors: Thresholds { low: 10, high: 50 },
            window: Span::from_secs(10),
            baseline: Span::from_secs(600),
            samples: 50,
        }
    }
}

// === impl LoadTrend ===

impl LoadTrend {
    pub(crate) fn new() -> LoadTrend {
        LoadTrend {
            weights: [0; BUCKETS],
            failed: 0,
            time: Baseline::default(),
            // No errors are usual before there were any: an upstream that fails from the start has
            // no headroom.
            errors: Baseline {
                is_known: true,
                age: Span::DAY,
                ..Baseline::default()
            },
            sampled_at: None,
            unanswered_since: None,
            state: Hysteresis::default(),
        }
    }

    /// Whether a sample was taken at this moment, so that another has nothing to compare.
    pub(crate) fn has_sample_of(&self, now: Moment) -> bool {
        self.sampled_at == Some(now)
    }

    /// Whether there is headroom since the last sample.
    pub(crate) const fn has_headroom(&self) -> bool {
        self.state.has_headroom()
    }

    /// From which response time on a request is as slow as under overload; `None` if it is not
    /// known yet.
    pub(crate) fn slow_from(&self, settings: &LoadSettings) -> Option<Span> {
        let high = u64::from(settings.latency.high);
        let usual = self.time.is_known.then_some(self.time.value)?;
        Some(Span::from_nanos(usual.saturating_mul(high) / 1000))
    }

    /// Takes a sample at `now`.
    pub(crate) fn step(
        &mut self,
        sample: &LoadSample,
        settings: &LoadSettings,
        pace: Pace,
        now: Moment,
    ) -> LoadFigures {
        let before = self.sampled_at.replace(now).unwrap_or(now);
        let elapsed = now.since(before);
        self.count(sample, elapsed, settings.window);
        let enough = u64::from(settings.samples) << UNIT_BITS;
        let answered: u64 = self.weights.iter().sum();
        let recent_time = (answered >= enough).then(|| self.quantile(answered));
        let all = answered + self.failed;
        let recent_errors = (all >= enough).then(|| scale(self.failed, MILLION, all));
        let mut level = self.level(recent_time, recent_errors, settings);
        if self.is_stalled(sample, settings, before, now) {
            level = Level::High;
        }
        self.state = self.state.step(level, pace, now);
        // A pause without samples taught nothing.
        let taught = elapsed.min(pace.sample_age_max);
        let is_at_ease = level == Level::Low;
        if let Some(time) = recent_time {
            let time = time.as_nanos();
            self.time
                .follow(time, taught, settings.baseline, is_at_ease);
        }
        if let Some(errors) = recent_errors {
            self.errors
                .follow(errors, taught, settings.baseline, is_at_ease);
        }
        LoadFigures {
            recent_time,
            baseline_time: self
                .time
                .is_known
                .then_some(Span::from_nanos(self.time.value)),
            recent_errors,
            baseline_errors: self.errors.value,
            has_headroom: self.state.has_headroom(),
        }
    }

    /// Lets the requests of earlier samples count less, and adds those of this one.
    fn count(&mut self, sample: &LoadSample, elapsed: Span, window: Span) {
        let [kept, whole] = [window, window + elapsed].map(Span::as_nanos);
        for (weight, count) in self.weights.iter_mut().zip(sample.times) {
            *weight = scale(*weight, kept, whole) + (u64::from(count) << UNIT_BITS);
        }
        let failures = u64::from(sample.failures) << UNIT_BITS;
        self.failed = scale(self.failed, kept, whole) + failures;
    }

    /// The response time that [`QUANTILE`] of the requests do not exceed.
    fn quantile(&self, answered: u64) -> Span {
        let rank = (u128::from(answered) * QUANTILE).div_ceil(1000);
        let mut up_to = 0;
        let found = self.weights.iter().position(|weight| {
            up_to += u128::from(*weight);
            up_to >= rank
        });
        time_of(found.unwrap_or(BUCKETS - 1))
    }

    fn level(&self, time: Option<Span>, errors: Option<u64>, settings: &LoadSettings) -> Level {
        let time = time.filter(|_| self.time.is_known).map(|time| {
            let ratio = scale(time.as_nanos(), 1000, self.time.value.max(1));
            settings.latency.level(u32::try_from(ratio).ok())
        });
        let errors = errors.map(|errors| {
            let more = errors.saturating_sub(self.errors.value) / 1000;
            settings.errors.level(u32::try_from(more).ok())
        });
        let levels = [time, errors].into_iter().flatten();
        levels.max().unwrap_or(Level::Low)
    }

    /// Whether so many requests wait, and none has ended for so long, that the upstream must have
    /// stopped answering, although its timeouts have not shown it yet.
    fn is_stalled(
        &mut self,
        sample: &LoadSample,
        settings: &LoadSettings,
        before: Moment,
        now: Moment,
    ) -> bool {
        let ends_none = sample.failures == 0 && sample.times.iter().all(|count| *count == 0);
        self.unanswered_since = match ends_none && sample.waiting >= settings.samples {
            true => Some(self.unanswered_since.unwrap_or(before)),
            false => None,
        };
        let slow = self.slow_from(settings).unwrap_or(Span::ZERO);
        self.unanswered_since
            .is_some_and(|since| now.since(since) >= slow.max(settings.window))
    }
}

// === impl Baseline ===

impl Baseline {
    /// Moves towards `figure`.
    fn follow(&mut self, figure: u64, elapsed: Span, time: Span, may_rise: bool) {
        if !self.is_known {
            self.value = figure;
            self.is_known = true;
            return;
        }
        let age = self.age.min(time).max(elapsed);
        let age = match figure > self.value && !may_rise {
            true => age.times(RISE_SLOWDOWN),
            false => age,
        };
        let [part, whole] = [elapsed, age + elapsed].map(Span::as_nanos);
        let step = scale(figure.abs_diff(self.value), part, whole.max(1));
        self.value = match figure > self.value {
            true => self.value + step,
            false => self.value - step,
        };
        self.age = (self.age + elapsed).min(time.max(self.age));
    }
}

/// `number` · `part` / `whole`, which does not overflow on the way.
fn scale(number: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(number) * u128::from(part) / u128::from(whole);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

// === impl LoadSample ===

impl LoadSample {
    /// Of an upstream without a request.
    pub(crate) const fn empty() -> LoadSample {
        LoadSample {
            times: [0; BUCKETS],
            failures: 0,
            waiting: 0,
        }
    }
}

#[cfg(test)]
mod tests;
