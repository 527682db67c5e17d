#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http_body::Frame;
use serde_json::json;
use tokio::time::sleep;
use tollgate_behaviour::{Random, check};
use tollgate_core::{Clock, Descriptor, Status};
use tollgate_engine::Stores;
use tollgate_http::{Classifier, Head, IdentitySettings, Peer};
use tollgate_memory::{ManualClock, Memory};
use tollgate_rules::{Options, RuleSet, Source};

use super::*;
use crate::metrics::Metrics;

const TASKS: usize = 40;
const RULES: &str = "{domain: d, descriptors: [{key: all, rate_limit: 1000/day}, \
                     {key: failed, rate_limit: 1000/day}, {key: bytes, rate_limit: 1000/day}]}";
/// The estimate of the bytes of a response.
const ESTIMATE: u64 = 5;

/// A gateway's limits, without its sockets.
struct Bench {
    engine: Arc<Engine>,
    settler: Settler,
    classifier: Classifier,
    pricing: Arc<Pricing>,
    metrics: Metrics,
}

/// How many requests should have been charged for good.
#[derive(Default)]
struct Account {
    sent: u64,
    /// Of these, that were settled.
    settled: u64,
    /// Of these, whose responses said that they do not count.
    released: u64,
    /// The bytes of their responses.
    bytes: u64,
}

/// How a request goes.
struct Plan {
    status: StatusCode,
    panics: bool,
    pauses: [u64; 4],
    parts: u64,
}

// === impl Bench ===

impl Bench {
    fn new() -> Bench {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let memory = Memory::builder().max_keys(100).clock(clock).build();
        let engine = Arc::new(Engine::new(Stores::new(memory)));
        let loaded = RuleSet::parse(&[Source::new("d.yaml", RULES)], &Options::default());
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        engine.replace_rules(loaded.rules);
        let identity: IdentitySettings = serde_json::from_value(json!({"descriptors": [
            {"entries": [{"key": "all", "from": {"constant": "v"}}]},
            {"entries": [{"key": "failed", "from": {"constant": "v"}}],
             "count_when": {"status": ["4xx"]}},
            {"entries": [{"key": "bytes", "from": {"constant": "v"}}],
             "cost": {"from": "response_bytes", "estimate": ESTIMATE}},
        ]}))
        .unwrap();
        let classifier = Classifier::with_responses(&identity).unwrap();
        let pricing = Pricing::new(&identity, &classifier);
        Bench {
            settler: Settler::new(&engine),
            engine,
            classifier,
            pricing: Arc::new(pricing.unwrap()),
            metrics: Metrics::new(),
        }
    }

    fn identify<'h>(&'h self, head: &'h Parts) -> Identity<'h> {
        let identity = self.classifier.identify(Head::of(head, Peer::default()));
        identity.unwrap()
    }

    /// Takes a request as far as its task lives, with a pause wherever a gateway may wait.
    async fn take(self: Arc<Self>, plan: Plan, account: Arc<Mutex<Account>>) {
        let pause = |millis| sleep(Duration::from_millis(millis));
        let head = head();
        let identity = self.identify(&head);
        let request = identity.request(b"d").unwrap();
        let unsettled = self.metrics.route("r").unsettled_counter();
        pause(plan.pauses[0]).await;
        let reserving = self
            .settler
            .reserve(&request, &identity, Some(&self.pricing), unsettled);
        let (_, reservation) = reserving.await.unwrap();
        let mut reservation = reservation.unwrap();
        pause(plan.pauses[1]).await;
        // From here on it stays charged.
        reservation.connect();
        account.lock().unwrap().sent += 1;
        pause(plan.pauses[2]).await;
        reservation.0.as_mut().unwrap().progress = Progress::Sent;
        pause(plan.pauses[3]).await;
        let settling = reservation.settle(plan.status, &head.headers);
        let mut meter = settling.await.unwrap();
        for _ in 0..plan.parts {
            meter.observe(&Frame::data(Bytes::from_static(b"abc")));
            pause(plan.pauses[3]).await;
        }
        assert!(!plan.panics, "as planned");
        // It settles without a wait in between.
        meter.finish(true);
        let mut account = account.lock().unwrap();
        account.settled += 1;
        account.released += u64::from(!plan.status.is_client_error());
        account.bytes += 3 * plan.parts;
    }

    async fn used(&self, key: &str) -> u64 {
        let request = Request {
            domain: b"d",
            descriptors: vec![Descriptor {
                entries: vec![tollgate_core::Entry {
                    key: key.as_bytes(),
                    value: b"v",
                }]
                .into(),
                ..Descriptor::default()
            }]
            .into(),
            cost: Cost::Peek(1),
            charge_denied: tollgate_core::ChargeDenied::Never,
        };
        let decided = self.engine.decide(&request).await.unwrap();
        match &decided.answer.statuses[0] {
            Status::Limited(limited) => 1000 - u64::from(limited.decision.remaining()),
            status => panic!("{status:?}"),
        }
    }
}

fn head() -> Parts {
    http::Request::get("/").body(()).unwrap().into_parts().0
}

fn plan(random: &mut Random) -> Plan {
    let statuses = [200, 401, 500];
    let status = statuses[usize::try_from(random.between(0, 2)).unwrap()];
    Plan {
        status: StatusCode::from_u16(status).unwrap(),
        panics: random.chance(10),
        pauses: [(); 4].map(|()| random.between(0, 5)),
        parts: random.between(0, 4),
    }
}

async fn cancel_some(random: &mut Random) {
    let (bench, account) = (Arc::new(Bench::new()), Arc::<Mutex<Account>>::default());
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let request = Arc::clone(&bench).take(plan(random), Arc::clone(&account));
        tasks.push(tokio::spawn(request));
    }
    for _ in 0..15 {
        sleep(Duration::from_millis(1)).await;
        let unlucky = usize::try_from(random.between(0, 99)).unwrap() % TASKS;
        tasks[unlucky].abort();
    }
    for task in tasks {
        let _cancelled_or_panicked = task.await.is_err();
    }
    let used = [
        bench.used("all").await,
        bench.used("failed").await,
        bench.used("bytes").await,
    ];
    let account = account.lock().unwrap();
    let failed = account.sent - account.released;
    // A response that was broken off costs at least what was estimated.
    let bytes = account.bytes + ESTIMATE * (account.sent - account.settled);
    assert_eq!(used, [account.sent, failed, bytes]);
    assert!(
        account.released > 0 && account.sent < 40,
        "nothing was cancelled"
    );
}

#[test]
fn what_is_charged_is_what_was_settled_wherever_requests_are_cancelled_or_panic() {
    check("cancelled requests", 30, |random| {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(cancel_some(random));
    });
}

#[tokio::test]
async fn settlements_in_memory_take_no_place_of_those_that_wait() {
    let bench = Bench::new();
    let (settler, metrics) = (&bench.settler, bench.metrics.route("r"));
    let acquire = |_| settler.background.try_acquire(true).unwrap();
    let _all: Vec<_> = (0..4096).map(acquire).collect();
    assert!(settler.background.try_acquire(true).is_none());
    let head = head();
    let identity = bench.identify(&head);
    let request = identity.request(b"d").unwrap();
    let reserving = settler.reserve(
        &request,
        &identity,
        Some(&bench.pricing),
        metrics.unsettled_counter(),
    );
    let (_, reservation) = reserving.await.unwrap();
    let settling = reservation.unwrap().settle(StatusCode::OK, &head.headers);
    settling.await.unwrap().finish(true);
    assert_eq!(bench.used("failed").await, 0);
}

#[tokio::test]
async fn a_request_of_known_cost_is_charged_from_when_a_connection_is_made_for_it() {
    let bench = Bench::new();
    let metrics = bench.metrics.route("r");
    let head = head();
    let identity = bench.identify(&head);
    let request = identity.request(b"d").unwrap();
    let reserve = async || {
        let unsettled = metrics.unsettled_counter();
        let reserving = bench.settler.reserve(&request, &identity, None, unsettled);
        reserving.await.unwrap().1.unwrap()
    };
    drop(reserve().await);
    assert_eq!(bench.used("failed").await, 0);
    let mut failed = reserve().await;
    failed.connect();
    failed.release();
    assert_eq!(bench.used("failed").await, 0);
    let mut abandoned = reserve().await;
    abandoned.connect();
    drop(abandoned);
    assert_eq!(bench.used("failed").await, 1);
    let send = |reservation: &mut Reservation| {
        reservation.send(&mut self::head(), &mut RequestBody::empty());
    };
    // Its connection was closed before anything of it was sent.
    let mut unsent = reserve().await;
    send(&mut unsent);
    unsent.release();
    assert_eq!(bench.used("failed").await, 1);
    let mut answered = reserve().await;
    send(&mut answered);
    let settling = answered.settle(StatusCode::OK, &head.headers);
    assert!(settling.await.is_none());
    assert_eq!(bench.used("failed").await, 2);
    let mut unanswered = reserve().await;
    send(&mut unanswered);
    drop(unanswered);
    assert_eq!(bench.used("failed").await, 3);
    assert_eq!(metrics.unsettled_counter().value("no_response"), 0);
}

#[tokio::test]
async fn what_a_response_may_release_is_unsettled_if_the_client_goes_away_before() {
    let bench = Bench::new();
    let metrics = bench.metrics.route("r");
    let head = head();
    let identity = bench.identify(&head);
    let request = identity.request(b"d").unwrap();
    let reserve = async |pricing| {
        let unsettled = metrics.unsettled_counter();
        let reserving = bench
            .settler
            .reserve(&request, &identity, pricing, unsettled);
        let mut reserved = reserving.await.unwrap().1.unwrap();
        reserved.connect();
        reserved
    };
    drop(reserve(None).await);
    assert_eq!(metrics.unsettled_counter().value("no_response"), 0);
    drop(reserve(Some(&bench.pricing)).await);
    assert_eq!(metrics.unsettled_counter().value("no_response"), 1);
    assert_eq!(bench.used("failed").await, 2);
    // Nothing of it was sent, after all.
    let mut unsent = reserve(Some(&bench.pricing)).await;
    unsent.send(&mut self::head(), &mut RequestBody::empty());
    unsent.release();
    assert_eq!(metrics.unsettled_counter().value("no_response"), 1);
    assert_eq!(bench.used("failed").await, 2);
}
