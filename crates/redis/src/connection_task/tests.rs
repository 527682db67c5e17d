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

#[tokio::test(start_paused = true)]
async fn a_report_in_the_queue_makes_no_question_wait_for_longer() {
    let queue = RequestQueue::new(REPLY_TIMEOUT, Arc::new(Stats::default()), |shared| {
        let task = ConnectionTask {
            opener: Opener::new(
                &Config::single("h:1"),
                &Environment {
                    transport: Some(Arc::new(Silent)),
                    ..Environment::default()
                },
            )
            .unwrap(),
            target: Target::Fixed("h:1".into()),
            caller: Caller::default(),
            batch: 64,
        };
        task.drive(shared)
    });
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
