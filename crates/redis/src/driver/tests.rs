#![allow(clippy::unwrap_used)]

use tollgate_core::{Charge, Cost, Key, Limit, Span};

use super::*;
use crate::config::Config;
use crate::failure::Failure;
use crate::fit::Fitted;
use crate::lane::Lane;
use crate::question::Question;
use crate::script::{ClockOf, Scripts};
use crate::simulated::{Connecting, Transport};
use crate::stats::Stats;

/// How long an asker waits.
const PATIENCE: Duration = Duration::from_millis(10);
/// How much longer a report is waited for.
const LATER: Duration = Duration::from_millis(500);

/// A network on which nothing arrives.
struct Silent;

impl Transport for Silent {
    fn connect(&self, _address: &str) -> Connecting {
        Box::pin(pending())
    }
}

fn question() -> Question {
    let limit = Limit::fixed_window(9, Span::DAY).unwrap();
    let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
    Question::of_one(&charge, &Fitted::new(&limit).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_report_in_the_queue_makes_no_question_wait_for_longer() {
    let lane = Lane::new(PATIENCE, Arc::new(Stats::default()), |shared| {
        let driver = Driver {
            opener: Opener::new(
                &Config::single("h:1"),
                Scripts::new(ClockOf::Redis),
                Some(Arc::new(Silent)),
            )
            .unwrap(),
            place: Place::Fixed("h:1".into()),
            caller: Caller::default(),
            batch: 64,
        };
        driver.drive(shared)
    });
    let start = Instant::now();
    let report = [(question(), 0)].into_iter();
    let mut reported = lane.ask_together(report, start + LATER).unwrap();
    // The driver sees the report, and sleeps until its deadline.
    sleep(Duration::from_millis(1)).await;
    let since = Instant::now();
    let asked = lane.ask(question(), 0, false, since).await;
    assert!(matches!(asked, Err(Failure::Unreachable(_))));
    assert_eq!(since.elapsed(), PATIENCE);
    let reported = reported.remove(0).await.unwrap();
    assert!(matches!(reported, Err(Failure::Unreachable(_))));
    assert_eq!(start.elapsed(), LATER + PATIENCE);
}
