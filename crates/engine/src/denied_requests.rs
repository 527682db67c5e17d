//! The latest denied requests, by the id that their answers have, so that a denial can be explained
//! afterwards.
//!
//! Bounded in number, size and time. A new denial replaces the oldest one. A thread never waits for
//! another one to keep a denial: if its shard is busy, it tries the next, and then keeps nothing.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};
use tollgate_core::{Answer, Moment, OwnedDescriptor, OwnedRequest, Request, Span, Wait};

/// How many denied requests are kept by default.
pub const DENIED_REQUESTS: usize = 4096;
/// The most denied requests that can be kept.
pub const DENIED_REQUESTS_MAX: usize = 1 << 20;
/// How long a denied request is kept.
pub const DENIED_REQUEST_KEPT: Span = Span::from_secs(15 * 60);
/// The largest denied request that is kept, in bytes of memory: those of its domain, keys and
/// values, 96 for each entry and 128 for each descriptor.
pub const DENIED_REQUEST_BYTES_MAX: usize = 4096;
/// What an entry and a descriptor take beside their text: the places of two texts, and the
/// smallest pieces of memory that the allocator gives for them.
const ENTRY_BYTES: usize = 96;
const DESCRIPTOR_BYTES: usize = 128;
const _: () = assert!(DESCRIPTOR_BYTES >= size_of::<OwnedDescriptor>() + 16);
/// The longest id that is taken from a client.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// The length of an id of this process: two numbers of 64 bits.
const OWN_ID_BYTES: usize = 32;
/// The most denials with one id that a look-up returns.
pub const DENIALS_BY_ID_MAX: usize = 16;

/// Parts that are locked one by one.
const SHARDS: usize = 8;

/// A request that was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedRequest {
    /// The id in the answer.
    pub id: Box<str>,
    /// When it was denied, by the clock of the engine.
    pub at: Moment,
    /// What denied it, by [`RuleName::shown`](tollgate_core::RuleName::shown).
    pub by: Option<Box<str>>,
    /// For how long it was denied.
    pub wait: Wait,
    /// Whether its store answered at that time. If not, the limits' `on_store_error` has denied it.
    pub has_answered: bool,
    request: OwnedRequest,
}

/// The denied requests that are kept.
pub(crate) struct DeniedRequests {
    /// The most in each shard; 0 keeps nothing.
    max_per_shard: usize,
    shards: [Mutex<VecDeque<DeniedRequest>>; SHARDS],
    next_shard: AtomicUsize,
    /// The first half of ids of our own: of this process.
    process: u64,
    next_id: AtomicU64,
}

// === impl DeniedRequests ===

impl DeniedRequests {
    /// Room for about `max`, rounded up to a multiple of the number of shards.
    pub(crate) fn new(max: usize) -> DeniedRequests {
        let mut process = [0; 8];
        // Without randomness, ids of two processes may be equal. Nothing but a look-up depends on
        // them.
        let _ = SystemRandom::new().fill(&mut process);
        DeniedRequests {
            max_per_shard: max.min(DENIED_REQUESTS_MAX).div_ceil(SHARDS),
            shards: Default::default(),
            next_shard: AtomicUsize::new(0),
            process: u64::from_le_bytes(process),
            next_id: AtomicU64::new(0),
        }
    }

    /// Keeps a denied request under the client's id if it is usable, or under a new one; returns
    /// the id. `None` if nothing was kept, and then `has_answered` is not asked whether the store
    /// answered.
    pub(crate) fn keep(
        &self,
        id: Option<&[u8]>,
        request: &Request<'_>,
        answer: &Answer,
        has_answered: impl FnOnce() -> bool,
        now: Moment,
    ) -> Option<Box<str>> {
        let denial = answer.denial.filter(|_| self.max_per_shard > 0)?;
        if size(request) > DENIED_REQUEST_BYTES_MAX {
            return None;
        }
        let mut shard = self.lock_any()?;
        let id = id.and_then(usable_id).unwrap_or_else(|| self.new_id());
        let kept = DeniedRequest {
            id: id.clone(),
            at: now,
            by: answer
                .denied_by()
                .map(|limited| limited.rule.shown().into()),
            wait: denial.wait,
            has_answered: has_answered(),
            request: OwnedRequest::of(request),
        };
        while shard.len() >= self.max_per_shard || shard.front().is_some_and(|old| old.is_old(now))
        {
            shard.pop_front();
        }
        shard.push_back(kept);
        Some(id)
    }

    /// The denied requests with this id that are still kept, the latest first.
    pub(crate) fn find(&self, id: &str, now: Moment) -> Vec<DeniedRequest> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = shard
                .iter()
                .filter(|kept| *kept.id == *id && !kept.is_old(now));
            found.extend(kept.cloned());
        }
        found.sort_by_key(|denied| std::cmp::Reverse(denied.at));
        found.truncate(DENIALS_BY_ID_MAX);
        found
    }

    /// A shard that no other thread uses now.
    fn lock_any(&self) -> Option<MutexGuard<'_, VecDeque<DeniedRequest>>> {
        let first = self.next_shard.fetch_add(1, Ordering::Relaxed);
        let mut shards =
            (0..SHARDS).map(|offset| &self.shards[(first.wrapping_add(offset)) % SHARDS]);
        shards.find_map(|shard| shard.try_lock().ok())
    }

    fn new_id(&self) -> Box<str> {
        let count = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(OWN_ID_BYTES);
        let _infallible = write!(id, "{:016x}{count:016x}", self.process);
        id.into()
    }
}

impl fmt::Debug for DeniedRequests {
    /// Without the requests: they may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeniedRequests").finish_non_exhaustive()
    }
}

/// The id of a client, unless it is too long or has other characters than those of common ids, such
/// as those that would need escapes in a log.
fn usable_id(id: &[u8]) -> Option<Box<str>> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@".contains(byte);
    let is_usable = (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(is_plain);
    let text = std::str::from_utf8(id).ok().filter(|_| is_usable)?;
    Some(text.into())
}

/// The bytes that a request takes when it is kept, rounded up.
fn size(request: &Request<'_>) -> usize {
    let entries = request.descriptors.iter().flat_map(|one| &one.entries);
    let entries: usize = entries
        .map(|entry| ENTRY_BYTES + entry.key.len() + entry.value.len())
        .sum();
    request.domain.len() + DESCRIPTOR_BYTES * request.descriptors.len() + entries
}

// === impl DeniedRequest ===

impl DeniedRequest {
    /// The request that was denied.
    pub fn request(&self) -> Request<'_> {
        self.request.request()
    }

    fn is_old(&self, now: Moment) -> bool {
        now.since(self.at) > DENIED_REQUEST_KEPT
    }
}

#[cfg(test)]
mod tests;
