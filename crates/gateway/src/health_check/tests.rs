#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Mutex;

use tokio::time::{Instant, timeout_at};

use super::*;

const INTERVAL: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(2);

fn settings() -> HealthCheckSettings {
    serde_json::from_str(r#"{"path": "/healthz"}"#).unwrap()
}

fn wrong(change: fn(&mut HealthCheckSettings)) -> String {
    let mut settings = settings();
    change(&mut settings);
    HealthCheck::new(&settings).unwrap_err().to_string()
}

#[derive(Clone, Copy, Debug)]
enum Reply {
    Good,
    Bad,
    Never,
}

/// Records when what changed.
struct Notes {
    began: Instant,
    changes: Mutex<Vec<(u128, bool)>>,
    checks: Mutex<usize>,
}

impl Observer for Notes {
    fn record(&self, _checked: &Result<(), CheckError>) {
        *self.checks.lock().unwrap() += 1;
    }

    fn set_passes(&self, passes: bool, last: &Result<(), CheckError>) {
        assert_eq!(passes, last.is_ok());
        let change = (self.began.elapsed().as_millis(), passes);
        self.changes.lock().unwrap().push(change);
    }
}

/// What checks with these replies say, and when: milliseconds from the first one.
async fn changes(replies: &[Reply]) -> Vec<(u128, bool)> {
    let check = HealthCheck::new(&settings()).unwrap();
    let mut replies: VecDeque<Reply> = replies.iter().copied().collect();
    let notes = Notes {
        began: Instant::now(),
        changes: Mutex::default(),
        checks: Mutex::default(),
    };
    let count = u32::try_from(replies.len()).unwrap();
    let ask = || {
        let reply = replies.pop_front().unwrap();
        async move {
            match reply {
                Reply::Good => Ok(()),
                Reply::Bad => Err(CheckError::Status(StatusCode::SERVICE_UNAVAILABLE)),
                Reply::Never => pending().await,
            }
        }
    };
    let until = notes.began + INTERVAL * count - Duration::from_millis(1);
    assert!(timeout_at(until, check.repeat(&notes, ask)).await.is_err());
    assert_eq!(
        *notes.checks.lock().unwrap(),
        usize::try_from(count).unwrap()
    );
    notes.changes.into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_first_check_decides_alone_and_later_several_in_a_row() {
    use Reply::{Bad, Good, Never};
    assert_eq!(changes(&[Good, Good]).await, [(0, true)]);
    assert_eq!(changes(&[Bad, Good]).await, [(0, false)]);
    // Three failures in a row, and not one fewer.
    let replies = [Good, Bad, Bad, Good, Bad, Bad, Bad, Bad];
    assert_eq!(changes(&replies).await, [(0, true), (30_000, false)]);
    // Two successes in a row.
    let replies = [Bad, Good, Bad, Good, Good, Bad];
    assert_eq!(changes(&replies).await, [(0, false), (20_000, true)]);
    // A check that gets no reply fails when its time is over.
    let late = TIMEOUT.as_millis();
    assert_eq!(
        changes(&[Never, Good, Good]).await,
        [(late, false), (10_000, true)]
    );
    let replies = [Good, Never, Bad, Never];
    assert_eq!(changes(&replies).await, [(0, true), (15_000 + late, false)]);
}

#[test]
fn every_error_says_what_to_write() {
    for (found, expected) in [
        (
            wrong(|one| one.path = "healthz".to_owned()),
            "path: \"healthz\" is not a valid path; write one such as /healthz",
        ),
        (
            wrong(|one| one.path = "/a b".to_owned()),
            "path: \"/a b\" is not a valid path;",
        ),
        (
            wrong(|one| one.host = Some("a b".to_owned())),
            "host: \"a b\" is not a valid host;",
        ),
        (
            wrong(|one| one.interval = Span::ZERO),
            "interval: 0s is outside 10ms to 1h; write one such as 5s",
        ),
        (
            wrong(|one| one.timeout = Span::DAY),
            "timeout: 1d is outside 10ms to 1h;",
        ),
        (
            wrong(|one| one.healthy = 0),
            "healthy: 0 checks in a row; write a number from 1 to 100",
        ),
        (
            wrong(|one| one.unhealthy = 101),
            "unhealthy: 101 checks in a row; write a number from 1 to 100",
        ),
        (
            wrong(|one| one.statuses = vec![200, 101]),
            "statuses[1]: 101 is not the status of a final response; write numbers from 200 to 599",
        ),
        (
            wrong(|one| one.statuses = vec![200; STATUSES_MAX + 1]),
            "statuses: 65 statuses; 64 is the most",
        ),
    ] {
        assert!(found.starts_with(expected), "{found}");
    }
}
