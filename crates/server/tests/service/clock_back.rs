//! A wall clock that is set back refills nothing and locks nobody, whatever protocol asks.

use tollgate_core::{Clock as _, Moment, Now, Span};
use tollgate_rls::rate_limit_response::Code;

use crate::exact::ALGORITHMS;
use crate::grpc_client;
use crate::house::House;
use crate::http_client;
use crate::redis_client::{RedisClient, with_redis};

const UNITS: usize = 3;
const WINDOW: Span = Span::MINUTE;
/// What a limit remembers at most: a window, and one segment of the next.
const MEMORY_MAX: Span = Span::from_secs(70);
/// The store takes a millisecond for the difference between two processors' clocks.
const STEPS: [Span; 4] = [Span::from_millis(2), Span::SECOND, WINDOW, Span::HOUR];

/// A client of each protocol, with a key of its own.
struct Clients {
    http: http_client::Client,
    grpc: grpc_client::Client,
    redis: RedisClient,
}

/// `None` if the request is allowed, otherwise how long to wait.
type Answer = Option<Span>;

// === impl Clients ===

impl Clients {
    async fn of(house: &House) -> Clients {
        Clients {
            http: http_client::Client::to(house.http()).await,
            grpc: grpc_client::Client::to(house.grpc()).await,
            redis: RedisClient::to(house).await,
        }
    }

    async fn ask(&mut self) -> [Answer; 3] {
        [
            self.ask_http().await,
            self.ask_grpc().await,
            self.ask_redis().await,
        ]
    }

    async fn ask_http(&mut self) -> Answer {
        let reply = self.http.post("/v1/check", &request("http")).await;
        let seconds = reply.header("retry-after");
        assert_eq!(reply.status == 429, seconds.is_some(), "{reply:?}");
        seconds.map(|seconds| Span::from_secs(seconds.parse().unwrap()))
    }

    async fn ask_grpc(&mut self) -> Answer {
        let response = self.grpc.ask(&request("grpc")).await.unwrap();
        let reset = response.statuses[0].duration_until_reset.unwrap();
        let is_denied = response.overall_code() == Code::OverLimit;
        is_denied.then(|| Span::from_secs(reset.seconds.try_into().unwrap()))
    }

    async fn ask_redis(&mut self) -> Answer {
        self.redis.send("TG.CHECK d 1 user redis\r\n").await;
        let reply = self.redis.lines(9).await;
        let numbers = reply[1..5].iter().map(|line| line[1..].parse().unwrap());
        let [limited, _limit, _remaining, retry]: [i64; 4] =
            numbers.collect::<Vec<_>>().try_into().unwrap();
        (limited == 1).then(|| Span::from_secs(retry.try_into().unwrap()))
    }
}

fn request(user: &str) -> String {
    format!(r#"{{"domain":"d","descriptors":[{{"entries":[{{"key":"user","value":"{user}"}}]}}]}}"#)
}

fn set_back(house: &House, step: Span) {
    let now = house.clock.now();
    let utc = Moment::ZERO + (now.utc.since(Moment::ZERO) - step);
    house.clock.set(Now { utc, ..now });
}

#[tokio::test]
async fn no_protocol_refills_or_locks_a_key() {
    for algorithm in ALGORITHMS {
        let rate_limit =
            format!("{{unit: minute, requests_per_unit: {UNITS}, algorithm: {algorithm}}}");
        let rules = format!("domain: d\ndescriptors: [{{key: user, rate_limit: {rate_limit}}}]\n");
        for step in STEPS {
            let house = House::with(&rules, with_redis).await;
            let mut clients = Clients::of(&house).await;
            for _ in 0..UNITS {
                assert_eq!(clients.ask().await, [None; 3], "{algorithm}");
            }
            set_back(&house, step);
            let denied = clients.ask().await.map(|answer| {
                answer.unwrap_or_else(|| panic!("{algorithm}, back by {step}: allowed again"))
            });
            for wait in denied {
                assert!(wait <= MEMORY_MAX, "{algorithm}, back by {step}: {wait}");
            }
            // A client that waits as answered is allowed.
            house.clock.advance(denied.into_iter().max().unwrap());
            let answers = clients.ask().await;
            assert_eq!(answers, [None; 3], "{algorithm}, back by {step}");
        }
    }
}
