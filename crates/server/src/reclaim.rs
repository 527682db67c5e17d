//! Returns memory that connections have freed to the system.
//!
//! The allocator keeps freed memory, so a service would stay as large as under its highest load.
//! Whenever connections have freed some megabytes, the allocator is asked to return what it keeps,
//! at most once in a few seconds and in a thread that nothing waits for.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate_listen::{Budget, ShutdownSignal};
use tollgate_memory::heap;
use tracing::info;

/// How often the freed bytes are checked.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// The fewest freed bytes to act on: less is not worth the allocator's locks.
const FREED_MIN: usize = 4 << 20;

/// Limits the allocator's arenas if the address space is limited. Call it before starting threads.
pub fn fit_address_space() {
    if let Some(bytes) = getrlimit(Resource::As).current {
        let arenas = heap::fit_address_space(bytes);
        info!(bytes, arenas, "the address space is limited");
    }
}

/// Returns memory until shutdown.
pub(crate) async fn reclaim(budget: Arc<Budget>, mut shutdown: ShutdownSignal) {
    let mut given_back = budget.freed();
    loop {
        tokio::select! {
            () = sleep(CHECK_EVERY) => {}
            () = shutdown.wait() => return,
        }
        let freed = budget.freed();
        if freed.wrapping_sub(given_back) >= FREED_MIN {
            given_back = freed;
            let _there_was_some = spawn_blocking(heap::give_back).await;
        }
    }
}
