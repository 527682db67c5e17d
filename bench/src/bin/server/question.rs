//! What a contender is asked: how a decision is requested, or a list of them, and what its reply
//! means.

use prost::Message;
use tollgate_rls::decisions::{self, CheckRequest, CheckResponse};
use tollgate_rls::rate_limit_descriptor::Entry;
use tollgate_rls::{RateLimitDescriptor, RateLimitRequest};

use crate::budget::{Budget, PERIOD};
use crate::protocol::{Protocol, grpc, http, resp};
use crate::template::{KEY, Template};

/// The domain of the rules.
pub(crate) const DOMAIN: &str = "bench";
const DECIDE: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const STREAM: &str = "/tollgate.v1.Decisions/Check";
/// Decisions of a list, and of what is sent at once on a stream.
const LIST: u32 = 100;
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
    /// The same with a list of [`LIST`] checks.
    CheckList,
    /// `POST /json` of Envoy's service.
    Json,
    /// `ShouldRateLimit` of Envoy's service, with so many descriptors.
    RateLimit { descriptors: usize },
    /// `Decisions/Check`: a call for each connection, on which [`LIST`] requests are sent at once.
    Stream,
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
}

/// How many decisions of a reply have each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

// === impl Outcomes ===

impl Outcomes {
    pub(crate) const ALLOWED: Outcomes = Outcomes {
        allowed: 1,
        denied: 0,
    };
    pub(crate) const DENIED: Outcomes = Outcomes {
        allowed: 0,
        denied: 1,
    };

    pub(crate) fn add(&mut self, other: Outcomes) {
        self.allowed += other.allowed;
        self.denied += other.denied;
    }

    /// Whether these are all outcomes of a list.
    pub(crate) fn is_list(self) -> bool {
        self.allowed + self.denied == u64::from(LIST)
    }
}

impl From<Outcome> for Outcomes {
    fn from(outcome: Outcome) -> Outcomes {
        match outcome {
            Outcome::Allowed => Outcomes::ALLOWED,
            Outcome::Denied => Outcomes::DENIED,
        }
    }
}

// === impl Question ===

impl Question {
    /// All, by the names that the command line knows.
    pub(crate) const ALL: [(&str, Question); 13] = [
        ("incr", Question::Incr),
        ("script", Question::Script),
        ("cl.throttle", Question::ClThrottle),
        ("tg.check", Question::TgCheck),
        ("throttle", Question::Throttle),
        ("throttle-http", Question::ThrottleHttp),
        ("throttle-grpc", Question::ThrottleGrpc),
        ("check", Question::Check),
        ("check-list", Question::CheckList),
        ("json", Question::Json),
        ("grpc", Question::RateLimit { descriptors: 1 }),
        ("grpc-2", Question::RateLimit { descriptors: 2 }),
        ("grpc-stream", Question::Stream),
    ];

    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            Question::Incr
            | Question::Script
            | Question::ClThrottle
            | Question::TgCheck
            | Question::Throttle => Protocol::Resp,
            Question::ThrottleHttp | Question::Check | Question::CheckList | Question::Json => {
                Protocol::Http
            }
            Question::ThrottleGrpc | Question::RateLimit { .. } | Question::Stream => {
                Protocol::Grpc
            }
        }
    }

    /// Whether it limits anything.
    pub(crate) fn limits(self) -> bool {
        self != Question::Incr
    }

    /// Whether a request asks for many decisions.
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Question::CheckList | Question::Stream)
    }

    /// The path of a call over gRPC.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Question::ThrottleGrpc => THROTTLE,
            Question::Stream => STREAM,
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
            Question::Check => http::post("/v1/check", &check(rule, &key)),
            Question::CheckList => {
                let checks: Vec<String> = (0..LIST).map(|_| check(rule, &key)).collect();
                let body = format!("[{}]", checks.join(","));
                return Template::with_decisions(http::post("/v1/check", &body), LIST);
            }
            Question::Json => http::post(
                "/json",
                &format!(
                    "{{\"domain\":\"{DOMAIN}\",\"descriptors\":\
                     [{{\"entries\":[{{\"key\":\"{rule}\",\"value\":\"{key}\"}}]}}]}}"
                ),
            ),
            Question::ThrottleGrpc => throttle_message(&key, budget),
            Question::RateLimit { descriptors } => rate_limit_message(rule, &key, descriptors),
            Question::Stream => {
                let messages = (1..=LIST).flat_map(|id| check_message(id, rule, &key));
                return Template::with_decisions(messages.collect(), LIST);
            }
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
    pub(crate) fn judge_response(self, status: u16, body: &[u8]) -> Option<Outcomes> {
        let contains = |text: &[u8]| body.windows(text.len()).any(|window| window == text);
        let outcome = match (self, status) {
            (Question::ThrottleHttp, 200) if contains(br#""allowed":true"#) => Outcome::Allowed,
            (Question::ThrottleHttp, 200) if contains(br#""allowed":false"#) => Outcome::Denied,
            (Question::ThrottleHttp, _) => return None,
            (Question::CheckList, 200) => return judge_list(body),
            (Question::CheckList, _) => return None,
            (_, 200) => Outcome::Allowed,
            (_, 429) => Outcome::Denied,
            _ => return None,
        };
        Some(outcome.into())
    }

    /// What the message of a stream means that answers the request with this id.
    pub(crate) fn judge_answer(id: u64, message: &[u8]) -> Option<Outcome> {
        let answer = CheckResponse::decode(message).ok()?;
        let is_decision = answer.error.is_none() && answer.statuses.len() == 1;
        match (answer.id == id && is_decision, answer.allowed) {
            (true, true) => Some(Outcome::Allowed),
            (true, false) => Some(Outcome::Denied),
            (false, _) => None,
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

/// The body of a check.
fn check(rule: &str, key: &str) -> String {
    format!(r#"{{"domain":"{DOMAIN}","descriptors":[{{"{rule}":"{key}"}}]}}"#)
}

/// The outcomes of a list of answers, of which each begins with its own.
fn judge_list(body: &[u8]) -> Option<Outcomes> {
    let mut outcomes = Outcomes::default();
    for object in body.split(|byte| *byte == b'{') {
        if object.starts_with(br#""allowed":true,"#) {
            outcomes.add(Outcomes::ALLOWED);
        } else if object.starts_with(br#""allowed":false,"#) {
            outcomes.add(Outcomes::DENIED);
        }
    }
    outcomes.is_list().then_some(outcomes)
}

/// A message of the stream.
fn check_message(id: u32, rule: &str, key: &str) -> Vec<u8> {
    let entry = decisions::Entry {
        key: rule.to_owned().into(),
        value: key.to_owned().into(),
    };
    let descriptor = decisions::Descriptor {
        entries: vec![entry],
        any_order: false,
    };
    let request = CheckRequest {
        id: id.into(),
        domain: DOMAIN.into(),
        descriptors: vec![descriptor],
        ..CheckRequest::default()
    };
    grpc::message(&request.encode_to_vec())
}

/// Envoy's message. Each further descriptor has a rule of its own.
fn rate_limit_message(rule: &str, key: &str, descriptors: usize) -> Vec<u8> {
    let descriptor = |number: usize| RateLimitDescriptor {
        entries: vec![Entry {
            key: match number {
                0 => rule.to_owned().into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_answers_is_complete_or_wrong() {
        let answer = |allowed: bool| format!(r#"{{"allowed":{allowed},"limits":[{{}}]}}"#);
        let list = |allowed: u32, denied: u32| {
            let answers = (0..allowed + denied).map(|index| answer(index < allowed));
            let body = format!("[{}]", answers.collect::<Vec<_>>().join(","));
            Question::CheckList.judge_response(200, body.as_bytes())
        };
        let expected = Outcomes {
            allowed: 98,
            denied: 2,
        };
        assert_eq!(list(98, 2), Some(expected));
        assert_eq!(list(98, 1), None);
        assert_eq!(list(98, 3), None);
        assert_eq!(Question::CheckList.judge_response(429, b"[]"), None);
    }

    #[test]
    fn an_answer_of_a_stream_has_its_id_and_a_decision() {
        let mut answer = CheckResponse {
            id: 7,
            allowed: true,
            statuses: vec![decisions::LimitStatus::default()],
            ..CheckResponse::default()
        };
        let judge =
            |id, answer: &CheckResponse| Question::judge_answer(id, &answer.encode_to_vec());
        assert_eq!(judge(7, &answer), Some(Outcome::Allowed));
        assert_eq!(judge(8, &answer), None);
        answer.allowed = false;
        assert_eq!(judge(7, &answer), Some(Outcome::Denied));
        answer.error = Some(decisions::Error::default());
        assert_eq!(judge(7, &answer), None);
    }
}
