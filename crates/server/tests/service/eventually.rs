//! What becomes true some time after a call has returned.

use std::panic::Location;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::timeout;

/// Longer than anything takes that a test waits for, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until this holds; if it never does, the test fails at the place of this call.
#[track_caller]
pub(crate) fn eventually(mut holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let place = Location::caller();
    async move {
        let waiting = async {
            while !holds().await {
                yield_now().await;
            }
        };
        let held = timeout(TIMEOUT, waiting).await.is_ok();
        assert!(held, "still not so after {TIMEOUT:?}: {place}");
    }
}
