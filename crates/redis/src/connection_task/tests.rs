#![allow(clippy::unwrap_used)]

use tollgate_core::{Charge, Cost, Key, Limit, Span};

use super::*;
use crate::config::Config;
use crate::environment::{Connecting, Environment, Transport};
use crate::failure::Failure;
use crate::fit::FittedLimit;
use crate::request_queue::{Redirected, RequestQueue};
use crate::script_request::ScriptRequest;
use crate::stats::Stats;

/// How long a caller waits for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_millis(10);
/// How much later a report is due.
const LATER: Duration = Duration::from_millis(500);

/// A network on which nobody listens.
struct Closed;

impl Transport for Closed {
    fn connect(&self, _address: &str) -> Connecting {
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

/// A network on which nothing arrives.
struct Silent;

impl Transport for Silent {
    fn connect(&self, _address: &str) -> Connecting {
        Box::pin(pending())
    }
}

fn request() -> ScriptRequest {
    let limit = Limit::fixed_window(9, Span::DAY).unwrap();
    let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
    ScriptRequest::of_one(&charge, &FittedLimit::new(&limit).unwrap())
}

fn connects_over(
    network: impl Transport + 'static,
    target: Target,
    stats: &Arc<Stats>,
) -> RequestQueue {
    let environment = Environment {
        transport: Some(Arc::new(network)),
        ..Environment::default()
    };
    let task = ConnectionTask {
        opener: Opener::new(&Config::single("h:1"), &environment).unwrap(),
        target,
        caller: Caller::default(),
        batch: 64,
    };
    RequestQueue::new(REPLY_TIMEOUT, Arc::clone(stats), |shared| {
        task.drive(shared)
    })
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_no_longer_needed_is_no_trouble() {
    let stats: Arc<Stats> = Arc::default();
    let reason = || stats.trouble.reason().unwrap_or_default();
    let [one, other] =
        ["a:1", "b:1"].map(|address| connects_over(Closed, Target::Member(address.into()), &stats));
    sleep(Duration::from_secs(3)).await;
    assert!(reason().contains("a:1") && reason().contains("b:1"));
    drop(one);
    sleep(Duration::from_secs(3)).await;
    assert!(reason().starts_with("b:1") && !reason().contains("a:1"));
    drop(other);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(stats.trouble.reason(), None);
}

#[tokio::test(start_paused = true)]
async fn a_former_primary_is_no_trouble() {
    let stats: Arc<Stats> = Arc::default();
    let named = NamedPrimary::default();
    let target = Target::Watched {
        named: named.clone(),
        master: "main".into(),
    };
    let _queue = connects_over(Closed, target, &stats);
    for address in ["a:1", "b:1"] {
        named.name(address);
        sleep(Duration::from_secs(3)).await;
        let reason = stats.trouble.reason().unwrap();
        assert!(reason.starts_with(address), "{reason}");
        assert!(!reason.contains(';'), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_in_the_queue_makes_no_question_wait_for_longer() {
    let queue = connects_over(Silent, Target::Fixed("h:1".into()), &Arc::default());
    let start = Instant::now();
    let report = [(request(), 0)].into_iter();
    let mut reported = queue.ask_together(report, start + LATER).unwrap();
    // The task sees the report, and sleeps until its deadline.
    sleep(Duration::from_millis(1)).await;
    let since = Instant::now();
    let asked = queue.ask(request(), Some(0), Redirected::No, since).await;
    assert!(matches!(asked, Err(Failure::Unreachable(_))));
    assert_eq!(since.elapsed(), REPLY_TIMEOUT);
    let reported = reported.remove(0).await.unwrap();
    assert!(matches!(reported, Err(Failure::Unreachable(_))));
    assert_eq!(start.elapsed(), LATER + REPLY_TIMEOUT);
}
