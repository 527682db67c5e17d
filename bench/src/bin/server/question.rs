//! What a contender is asked: how one decision is requested, and what its reply means.

use prost::Message;
use tollgate_rls::rate_limit_descriptor::Entry;
use tollgate_rls::{RateLimitDescriptor, RateLimitRequest};

use crate::budget::{Budget, PERIOD};
use crate::protocol::{Protocol, grpc, http, resp};
use crate::template::{KEY, Template};

/// The domain of the rules.
pub(crate) const DOMAIN: &str = "bench";
const DECIDE: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const THROTTLE: &str = "/throttlecrab.RateLimiter/Throttle";

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// `INCR`, which counts and limits nothing.
    Incr,
    /// A script in Redis, which replies as `CL.THROTTLE` does.
    Script,
    /// `CL.THROTTLE` of redis-cell.
    ClThrottle,
    /// `TG.CHECK` of Tollgate.
    TgCheck,
    /// `THROTTLE` of throttlecrab-server.
    Throttle,
    /// throttlecrab-server over HTTP.
    ThrottleHttp,
    /// throttlecrab-server over gRPC.
    ThrottleGrpc,
    /// `POST /v1/check` of Tollgate.
    Check,
    /// `POST /json` of Envoy's service.
    Json,
    /// `ShouldRateLimit` of Envoy's service, with so many descriptors.
    RateLimit { descriptors: usize },
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
}

// === impl Question ===

impl Question {
    /// All, by the names that the command line knows.
    pub(crate) const ALL: [(&str, Question); 11] = [
        ("incr", Question::Incr),
        ("script", Question::Script),
        ("cl.throttle", Question::ClThrottle),
        ("tg.check", Question::TgCheck),
        ("throttle", Question::Throttle),
        ("throttle-http", Question::ThrottleHttp),
        ("throttle-grpc", Question::ThrottleGrpc),
        ("check", Question::Check),
        ("json", Question::Json),
        ("grpc", Question::RateLimit { descriptors: 1 }),
        ("grpc-2", Question::RateLimit { descriptors: 2 }),
    ];

    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            Question::Incr
            | Question::Script
            | Question::ClThrottle
            | Question::TgCheck
            | Question::Throttle => Protocol::Resp,
            Question::ThrottleHttp | Question::Check | Question::Json => Protocol::Http,
            Question::ThrottleGrpc | Question::RateLimit { .. } => Protocol::Grpc,
        }
    }

    /// Whether it limits anything.
    pub(crate) fn limits(self) -> bool {
        self != Question::Incr
    }

    /// The path of a call over gRPC.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Question::ThrottleGrpc => THROTTLE,
            _ => DECIDE,
        }
    }

    /// The request for a key with this budget. `space` keeps the keys of loads apart, and `script`
    /// is the hash of a script in Redis.
    pub(crate) fn template(self, budget: Budget, space: char, script: &str) -> Template {
        let key = format!("{space}{KEY}");
        let [capacity, burst, count, period] = [
            budget.capacity(),
            budget.capacity() - 1,
            budget.count(),
            PERIOD,
        ]
        .map(|number| number.to_string());
        let terms = |command, burst| resp::command(&[command, &key, burst, &count, &period]);
        let rule = budget.rule();
        let bytes = match self {
            Question::Incr => resp::command(&["INCR", &key]),
            Question::Script => {
                resp::command(&["EVALSHA", script, "1", &key, &burst, &count, &period])
            }
            Question::ClThrottle => terms("CL.THROTTLE", &burst),
            // Its burst is what fits at once.
            Question::Throttle => terms("THROTTLE", &capacity),
            Question::TgCheck => resp::command(&["TG.CHECK", DOMAIN, "1", rule, &key]),
            Question::ThrottleHttp => http::post(
                "/throttle",
                &format!(
                    "{{\"key\":\"{key}\",\"max_burst\":{capacity},\"count_per_period\":{count},\
                     \"period\":{period},\"quantity\":1}}"
                ),
            ),
            Question::Check => http::post(
                "/v1/check",
                &format!(r#"{{"domain":"{DOMAIN}","descriptors":[{{"{rule}":"{key}"}}]}}"#),
            ),
            Question::Json => http::post(
                "/json",
                &format!(
                    "{{\"domain\":\"{DOMAIN}\",\"descriptors\":\
                     [{{\"entries\":[{{\"key\":\"{rule}\",\"value\":\"{key}\"}}]}}]}}"
                ),
            ),
            Question::ThrottleGrpc => throttle_message(&key, budget),
            Question::RateLimit { descriptors } => rate_limit_message(rule, &key, descriptors),
        };
        Template::new(bytes)
    }

    /// What the first integer of a reply means; `None` if it means nothing.
    pub(crate) fn judge_integer(self, number: i64) -> Option<Outcome> {
        match (self, number) {
            (Question::Incr, 1..) => Some(Outcome::Allowed),
            (Question::Throttle, 1) => Some(Outcome::Allowed),
            (Question::Throttle, 0) => Some(Outcome::Denied),
            (Question::Incr | Question::Throttle, _) => None,
            (_, 0) => Some(Outcome::Allowed),
            (_, 1) => Some(Outcome::Denied),
            _ => None,
        }
    }

    /// What a response means.
    pub(crate) fn judge_response(self, status: u16, body: &[u8]) -> Option<Outcome> {
        let contains = |text: &[u8]| body.windows(text.len()).any(|window| window == text);
        match (self, status) {
            (Question::ThrottleHttp, 200) if contains(br#""allowed":true"#) => {
                Some(Outcome::Allowed)
            }
            (Question::ThrottleHttp, 200) if contains(br#""allowed":false"#) => {
                Some(Outcome::Denied)
            }
            (Question::ThrottleHttp, _) => None,
            (_, 200) => Some(Outcome::Allowed),
            (_, 429) => Some(Outcome::Denied),
            _ => None,
        }
    }

    /// What a message means. Its first field is the outcome.
    pub(crate) const fn judge_message(self, message: &[u8]) -> Option<Outcome> {
        match (self, message) {
            (Question::ThrottleGrpc | Question::RateLimit { .. }, [8, 1, ..]) => {
                Some(Outcome::Allowed)
            }
            (Question::RateLimit { .. }, [8, 2, ..]) => Some(Outcome::Denied),
            // `false` is not written, so the second field comes first.
            (Question::ThrottleGrpc, [16, ..]) => Some(Outcome::Denied),
            _ => None,
        }
    }
}

/// Envoy's message. Each further descriptor has a rule of its own.
fn rate_limit_message(rule: &str, key: &str, descriptors: usize) -> Vec<u8> {
    let descriptor = |number: usize| RateLimitDescriptor {
        entries: vec![Entry {
            key: match number {
                0 => rule.into(),
                _ => format!("{rule}_{number}").into(),
            },
            value: key.to_owned().into(),
        }],
        ..RateLimitDescriptor::default()
    };
    let request = RateLimitRequest {
        domain: DOMAIN.into(),
        descriptors: (0..descriptors).map(descriptor).collect(),
        ..RateLimitRequest::default()
    };
    grpc::message(&request.encode_to_vec())
}

/// throttlecrab-server's message: a key and four numbers.
fn throttle_message(key: &str, budget: Budget) -> Vec<u8> {
    let mut message = Vec::new();
    prost::encoding::string::encode(1, &key.to_owned(), &mut message);
    let numbers = [budget.capacity(), budget.count(), PERIOD, 1];
    for (field, number) in (2..).zip(numbers) {
        prost::encoding::uint32::encode(field, &number, &mut message);
    }
    grpc::message(&message)
}
