//! Memory that connections have freed, given back to the system.
//!
//! The allocator keeps what was freed, so that a service would look as large as under its worst
//! load for ever. Whenever connections have freed some megabytes, the allocator is asked to give
//! back what it keeps, at most once in a few seconds and in a thread that nobody waits for.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate_listen::{Budget, Stopping};
use tollgate_memory::heap;
use tracing::info;

/// How often the freed bytes are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Less is not worth the allocator's locks.
const FREED_MIN: usize = 4 << 20;

/// Fits the allocator into a limited address space. To be called before there are threads.
pub fn fit_address_space() {
    if let Some(bytes) = getrlimit(Resource::As).current {
        let arenas = heap::fit_address_space(bytes);
        info!(bytes, arenas, "the address space is limited");
    }
}

/// Gives memory back until it is time to stop.
pub(crate) async fn reclaim(budget: Arc<Budget>, mut stopping: Stopping) {
    let mut given_back = budget.freed();
    loop {
        tokio::select! {
            () = sleep(LOOK_EVERY) => {}
            () = stopping.wait() => return,
        }
        let freed = budget.freed();
        if freed.wrapping_sub(given_back) >= FREED_MIN {
            given_back = freed;
            let _there_was_some = spawn_blocking(heap::give_back).await;
        }
    }
}
