//! Returns memory that connections have freed to the system.
//!
//! The allocator keeps freed memory, so a service would stay as large as under its highest load.
//! Whenever connections have freed some megabytes, the allocator is asked to return what it keeps,
//! at most once in a few seconds and in a thread that nothing waits for. It is asked again later,
//! because connections end while the first answer is on its way.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate_listen::{Budget, ShutdownSignal};
use tollgate_memory::heap;
use tracing::info;

use crate::thread_caches;

/// How often the freed bytes are checked.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// The fewest freed bytes to act on: less is not worth the allocator's locks.
const FREED_MIN: usize = 4 << 20;
/// How often the allocator is asked after that, also if nothing more was freed: what is left then,
/// threads have kept, and hand over between two of these times.
const ROUNDS: u64 = 3;

/// A limit of the process's address space (`ulimit -v`), and how many arenas the allocator may have
/// in it.
#[derive(Clone, Copy, Debug)]
pub struct AddressSpace {
    bytes: u64,
    arenas: u64,
}

impl AddressSpace {
    /// Logs both numbers.
    pub fn log(self) {
        let Self { bytes, arenas } = self;
        info!(bytes, arenas, "the address space is limited");
    }
}

/// Has the allocator return freed memory early, and limits its arenas if the address space is
/// limited, which it returns.
///
/// Call it before any thread is started, thus before [`init_log`](crate::init_log): a thread's
/// first allocation takes an arena.
pub fn tune_allocator() -> Option<AddressSpace> {
    heap::fix_thresholds();
    let bytes = getrlimit(Resource::As).current?;
    let arenas = heap::fit_address_space(bytes);
    Some(AddressSpace { bytes, arenas })
}

/// Returns memory until shutdown.
pub(crate) async fn reclaim(budget: Arc<Budget>, mut shutdown: ShutdownSignal) {
    let (mut given_back, mut rounds, mut request) = (budget.freed_bytes(), 0, 0);
    loop {
        tokio::select! {
            () = sleep(CHECK_EVERY) => {}
            () = shutdown.wait() => return,
        }
        let freed = budget.freed_bytes();
        if freed.wrapping_sub(given_back) >= FREED_MIN {
            given_back = freed;
            rounds = ROUNDS;
        }
        if rounds == 0 {
            continue;
        }
        rounds -= 1;
        request += 1;
        let next = if rounds == 0 { 0 } else { request };
        let _nothing_to_add = spawn_blocking(move || give_back(next)).await;
    }
}

/// Returns what is free now, and requests what threads have kept: `next` is the number of that
/// request, or 0 for none.
fn give_back(next: u64) {
    thread_caches::request(0);
    thread_caches::free_collected();
    let _there_was_some = heap::give_back();
    thread_caches::request(next);
}
