//! Retries: which requests may be sent again, and how many of all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use hyper::Request;
use tokio::time::Instant;
use tollgate_http::{InvalidSetting, InvalidSettings};

use crate::request_body::RequestBody;
use crate::settings::RetrySettings;

/// The most retries of one request.
const ATTEMPTS_MAX: u32 = 5;
/// The highest share of requests, and the most retries that are possible in a second anyhow.
const PERCENT_MAX: u32 = 100;
const PER_SECOND_MAX: u32 = 10_000;
/// What a retry takes from those that requests have earned.
const RETRY: u64 = 100;
/// The most retries that requests have earned and that were not made, so that an upstream that
/// fails after a long time of health is not sent a flood.
const EARNED_MAX: u64 = 100 * RETRY;

/// How many requests to an upstream may be sent again: a share of all, and a few in each second.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    attempts: u32,
    /// What a request earns, in hundredths of a retry.
    percent: u64,
    per_second: u32,
    earned: AtomicU64,
    present: Mutex<Second>,
}

/// The retries of a second that no request has earned.
#[derive(Debug)]
struct Second {
    began: Instant,
    retries: u32,
}

/// A request that can be sent again.
#[derive(Debug)]
pub(crate) struct Retries {
    head: Parts,
    left: u32,
}

/// What is needed to send a request without a body again.
pub(crate) fn copy_head(request: &Request<RequestBody>) -> Parts {
    let (mut head, ()) = Request::new(()).into_parts();
    head.method.clone_from(request.method());
    head.uri.clone_from(request.uri());
    head.headers.clone_from(request.headers());
    head.version = request.version();
    head
}

// === impl RetryBudget ===

impl RetryBudget {
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn new(settings: &RetrySettings) -> Result<RetryBudget, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let RetrySettings {
            attempts,
            percent,
            per_second,
        } = *settings;
        if !(1..=ATTEMPTS_MAX).contains(&attempts) {
            let problem = format!("{attempts} retries of a request");
            let instead = format!("write a number from 1 to {ATTEMPTS_MAX}");
            errors.push(InvalidSetting::new("attempts", problem, instead));
        }
        for (at, number, unit, most) in [
            ("percent", percent, "percent", PERCENT_MAX),
            ("per_second", per_second, "per second", PER_SECOND_MAX),
        ] {
            errors.take(InvalidSetting::check_at_most(at, number, unit, most));
        }
        if percent == 0 && per_second == 0 {
            let problem = "no request could be sent again";
            let instead = "write a `percent` or `per_second` above 0, or remove `retries`";
            errors.push(InvalidSetting::new("percent", problem, instead));
        }
        errors.check()?;
        Ok(RetryBudget {
            attempts,
            percent: percent.into(),
            per_second,
            earned: AtomicU64::new(0),
            present: Mutex::new(Second {
                began: Instant::now(),
                retries: 0,
            }),
        })
    }

    /// Counts a request, and keeps what is needed to send it again: if it is safe and has no body.
    pub(crate) fn record_request(&self, request: &Request<RequestBody>) -> Option<Retries> {
        self.earn();
        let can_be_repeated = request.method().is_safe() && request.body().is_empty();
        can_be_repeated.then(|| Retries {
            head: copy_head(request),
            left: self.attempts,
        })
    }

    fn earn(&self) {
        // Relaxed: the count publishes nothing else.
        let order = Ordering::Relaxed;
        let more = |earned: u64| (earned < EARNED_MAX).then(|| earned + self.percent);
        let _full = self.earned.fetch_update(order, order, more);
    }

    /// Takes a retry; whether there was one.
    pub(crate) fn take(&self) -> bool {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if present.began.elapsed() >= Duration::from_secs(1) {
            present.began = Instant::now();
            present.retries = 0;
        }
        if present.retries < self.per_second {
            present.retries += 1;
            return true;
        }
        drop(present);
        let order = Ordering::Relaxed;
        let less = |earned: u64| earned.checked_sub(RETRY);
        self.earned.fetch_update(order, order, less).is_ok()
    }
}

// === impl Retries ===

impl Retries {
    /// The request again; `None` if it was sent again as often as it may be.
    pub(crate) fn next_request(&mut self) -> Option<Request<RequestBody>> {
        self.left = self.left.checked_sub(1)?;
        Some(Request::from_parts(self.head.clone(), RequestBody::empty()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::Method;
    use tokio::time::advance;

    use super::*;

    fn budget(percent: u32, per_second: u32) -> RetryBudget {
        let settings = RetrySettings {
            attempts: 2,
            percent,
            per_second,
        };
        RetryBudget::new(&settings).unwrap()
    }

    /// How many retries are possible now.
    fn possible(budget: &RetryBudget) -> usize {
        std::iter::from_fn(|| budget.take().then_some(())).count()
    }

    #[tokio::test(start_paused = true)]
    async fn retries_are_a_share_of_the_requests_and_a_few_in_each_second() {
        let shared = budget(20, 0);
        assert_eq!(possible(&shared), 0);
        (0..14).for_each(|_| shared.earn());
        assert_eq!(possible(&shared), 2);
        shared.earn();
        assert_eq!(possible(&shared), 1);
        // No more than so many after a long time without one.
        (0..100_000).for_each(|_| shared.earn());
        assert_eq!(possible(&shared), 100);

        let both = budget(50, 3);
        assert_eq!(possible(&both), 3);
        advance(Duration::from_millis(999)).await;
        assert_eq!(possible(&both), 0);
        advance(Duration::from_millis(1)).await;
        (0..4).for_each(|_| both.earn());
        assert_eq!(possible(&both), 5);
        advance(Duration::from_secs(60)).await;
        assert_eq!(possible(&both), 3);
    }

    #[tokio::test]
    async fn only_safe_requests_are_sent_again_and_not_more_often_than_they_may() {
        let budget = budget(20, 1);
        let request = |method: Method| {
            let request = Request::builder().method(method).uri("/a").header("b", "c");
            request.body(RequestBody::empty()).unwrap()
        };
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE] {
            let mut retries = budget.record_request(&request(method.clone())).unwrap();
            for _ in 0..2 {
                let again = retries.next_request().unwrap();
                assert_eq!((again.method(), again.uri().path()), (&method, "/a"));
                assert_eq!(again.headers()["b"], "c");
            }
            assert!(retries.next_request().is_none());
        }
        for method in ["POST", "PUT", "PATCH", "DELETE", "get", "OTHER"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert!(budget.record_request(&request(method)).is_none());
        }
    }

    #[test]
    fn every_error_says_what_to_write() {
        let wrong = |attempts, percent, per_second| {
            let settings = RetrySettings {
                attempts,
                percent,
                per_second,
            };
            RetryBudget::new(&settings).unwrap_err().to_string()
        };
        for (found, expected) in [
            (
                wrong(0, 20, 10),
                "attempts: 0 retries of a request; write a number from 1 to 5",
            ),
            (wrong(6, 20, 10), "attempts: 6 retries of a request;"),
            (wrong(1, 101, 10), "percent: 101 percent; 100 is the most"),
            (
                wrong(1, 20, 10_001),
                "per_second: 10001 per second; 10000 is the most",
            ),
            (wrong(1, 0, 0), "percent: no request could be sent again;"),
        ] {
            assert!(found.starts_with(expected), "{found}");
        }
    }
}
