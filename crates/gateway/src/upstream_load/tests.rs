#![allow(clippy::unwrap_used)]

use http::StatusCode;
use tollgate_memory::ManualClock;

use super::*;
use crate::metrics::Metrics;

const PACE: Pace = Pace {
    hold: Span::ZERO,
    sample_age_max: Span::MINUTE,
};

struct Measured {
    load: Arc<UpstreamLoad>,
    manual: Arc<ManualClock>,
    clock: Arc<dyn Clock>,
}

impl Measured {
    fn new() -> Measured {
        let metrics = Metrics::new().load("api");
        let manual = Arc::new(ManualClock::at(Moment::ZERO + Span::DAY));
        let shared = Arc::clone(&manual);
        let clock: Arc<dyn Clock> = shared;
        Measured {
            load: Arc::new(UpstreamLoad::new("api", metrics)),
            manual,
            clock,
        }
    }

    fn measuring() -> Measured {
        let measured = Measured::new();
        measured.sample();
        measured
    }

    fn sample(&self) -> bool {
        let settings = LoadSettings {
            samples: 1,
            ..LoadSettings::default()
        };
        self.manual.advance(Span::SECOND);
        let now = self.clock.on(Timeline::Monotonic);
        self.load.sample(&settings, PACE, now)
    }

    fn begin(&self) -> Waiting {
        self.load.begin(&self.clock, None).unwrap()
    }

    fn answer(&self, took: Span, response: Response<()>) {
        let waiting = self.begin();
        self.manual.advance(took);
        waiting.end(Ok(&response));
    }
}

fn response(status: StatusCode, grpc: Option<&str>) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    if let Some(grpc) = grpc {
        let value = grpc.parse().unwrap();
        response.headers_mut().insert("grpc-status", value);
    }
    response
}

#[test]
fn nothing_is_measured_until_a_sample_and_after_the_rest() {
    let measured = Measured::new();
    assert!(measured.load.begin(&measured.clock, None).is_none());
    measured.load.count_failure();
    assert_eq!(measured.load.take(), LoadSample::empty());
    measured.sample();
    let waiting = measured.begin();
    measured.load.count_failure();
    measured.load.rest();
    // The request that was in flight leaves nothing behind.
    drop(waiting);
    assert!(measured.load.begin(&measured.clock, None).is_none());
    assert_eq!(measured.load.take(), LoadSample::empty());
}

#[test]
fn errors_are_server_errors_and_failures_of_the_upstream() {
    use StatusCode as S;
    for (status, grpc, fails) in [
        (S::OK, None, false),
        (S::NOT_FOUND, None, false),
        (S::TOO_MANY_REQUESTS, None, false),
        (S::SWITCHING_PROTOCOLS, None, false),
        (S::INTERNAL_SERVER_ERROR, None, true),
        (S::SERVICE_UNAVAILABLE, None, true),
        (S::OK, Some("0"), false),
        (S::OK, Some("8"), false),
        (S::OK, Some("14"), true),
        (S::OK, Some("4"), true),
    ] {
        let measured = Measured::measuring();
        measured.answer(Span::ZERO, response(status, grpc));
        let sample = measured.load.take();
        assert_eq!(sample.failures, u32::from(fails), "{status} {grpc:?}");
        assert_eq!(sample.times[0], u32::from(!fails), "{status} {grpc:?}");
        assert_eq!(sample.waiting, 0);
    }
    for (failure, counts) in [
        (Failure::Unreachable, true),
        (Failure::Closed, true),
        (Failure::SlowHead(PACE.hold.to_duration()), true),
        (Failure::Busy, true),
        (Failure::NoHealthyAddress, true),
        (Failure::TooLarge(1), false),
        (Failure::IdleBody(PACE.hold.to_duration()), false),
        (Failure::IncompleteBody, false),
    ] {
        let measured = Measured::measuring();
        let kind = failure.kind();
        measured.begin().end::<()>(Err(&failure));
        let expected = LoadSample {
            failures: u32::from(counts),
            ..LoadSample::empty()
        };
        assert_eq!(measured.load.take(), expected, "{kind}");
    }
}

#[test]
fn a_request_whose_client_went_away_counts_if_it_took_too_long_already() {
    let measured = Measured::measuring();
    drop(measured.begin());
    assert_eq!(measured.load.take(), LoadSample::empty());
    measured.answer(Span::from_millis(100), response(StatusCode::OK, None));
    measured.sample();
    for (millis, counts) in [(0, 0), (150, 0), (250, 1)] {
        let waiting = measured.begin();
        assert_eq!(measured.load.waiting.load(Ordering::Relaxed), 1);
        measured.manual.advance(Span::from_millis(millis));
        drop(waiting);
        let sample = measured.load.take();
        assert_eq!(sample.times.iter().sum::<u32>(), counts, "{millis}");
        assert_eq!(sample.waiting, 0);
    }
}

#[test]
fn two_samples_of_one_moment_change_nothing() {
    let measured = Measured::measuring();
    measured.answer(Span::ZERO, response(StatusCode::OK, None));
    let had = measured.sample();
    measured.load.count_failure();
    let now = measured.clock.on(Timeline::Monotonic);
    let settings = LoadSettings::default();
    assert_eq!(measured.load.sample(&settings, PACE, now), had);
    assert_eq!(measured.load.take().failures, 1);
}
