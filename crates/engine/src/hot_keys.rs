//! The keys with the most decisions and with the most denials, while they are watched.
//!
//! Nothing is counted without a watcher: a decision then reads one flag. With one, it counts in a
//! part that few other threads use; it never waits for a part that is in use, but takes the next
//! one, and if all are in use it counts nothing but that.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::hmac::{HMAC_SHA256, Key as Secret, sign};
use ring::rand::SystemRandom;
use tollgate_core::{
    Answer, Decision, Descriptor, Limited, Moment, OwnedDescriptor, Request, RuleName, Span, Status,
};
use tollgate_rules::Resolved;

use crate::decisions::DescriptorOutcome;
use crate::sketch::{COUNTERS, SETS, SetHash, Sketch};

mod merged;

use merged::Merged;

/// How many keys each part counts, of each kind and in each window.
pub const HOT_KEY_COUNTERS: usize = SETS * COUNTERS;
/// How long a window is. What is shown is of the current one and the one before.
pub const HOT_KEYS_WINDOW: Span = Span::from_secs(60);
/// The most keys of each kind that are shown.
pub const HOT_KEYS_MAX: usize = 100;
/// The most entries that are kept of a descriptor.
const ENTRIES_MAX: usize = 8;
/// The most bytes that are kept of a key or a value in it.
const TEXT_BYTES_MAX: usize = 128;
/// Parts that are locked one by one.
const PARTS: usize = 8;
/// How many bytes of its hash stand for a value.
const HASH_BYTES: usize = 6;

/// The keys with the most decisions and with the most denials, of at most two windows.
#[derive(Clone, Debug, Default)]
pub struct HotKeys {
    /// Those with the most decisions, the most frequent first.
    pub hottest: Vec<HotKey>,
    /// Those with the most denials, the most frequent first.
    pub most_denied: Vec<HotKey>,
    /// How many decisions of limits were counted.
    pub decisions: u64,
    /// How many of them were denials.
    pub denials: u64,
    /// The most by which a count of [`HotKeys::hottest`] is too high: about
    /// [`HotKeys::decisions`] divided by [`HOT_KEY_COUNTERS`] if no key is frequent, and less
    /// otherwise. A key that is missing there has at most so many.
    pub error_max: u64,
    /// The same of [`HotKeys::most_denied`] and [`HotKeys::denials`].
    pub denial_error_max: u64,
    /// How many were not counted, because other threads were counting.
    pub missed: u64,
    /// The time that this covers.
    pub span: Span,
}

/// How often a key occurred.
#[derive(Clone, Debug)]
pub struct HotKey {
    /// The rule that the key belongs to.
    pub rule: Arc<RuleName>,
    /// At least as often as it occurred, but for [`HotKeys::missed`].
    pub count: u64,
    /// The most by which `count` is too high.
    pub error: u64,
    label: Arc<Label>,
}

/// Counts keys while they are watched.
pub(crate) struct HotKeyCounts {
    watchers: AtomicUsize,
    changing_watchers: Mutex<()>,
    parts: [Mutex<Windows>; PARTS],
    hash: SetHash,
    missed: AtomicU64,
    /// Keys the hashes of values; `None` if the system has no random numbers.
    secret: Option<Secret>,
}

/// What a part has counted in this window, and in the one before.
#[derive(Debug)]
struct Windows {
    since: Moment,
    current: Window,
    previous: Option<(Moment, Window)>,
}

#[derive(Debug)]
struct Window {
    hottest: Sketch<Label>,
    most_denied: Sketch<Label>,
    decisions: u64,
    denials: u64,
}

/// One of the descriptors that count under a key.
#[derive(Debug)]
struct Label {
    rule: Arc<RuleName>,
    descriptor: OwnedDescriptor,
    is_whole: bool,
}

// === impl HotKeyCounts ===

impl HotKeyCounts {
    pub(crate) fn new() -> HotKeyCounts {
        let hash = SetHash::new();
        HotKeyCounts {
            watchers: AtomicUsize::new(0),
            changing_watchers: Mutex::default(),
            parts: std::array::from_fn(|_| Mutex::new(Windows::new(hash, Moment::ZERO))),
            hash,
            missed: AtomicU64::new(0),
            secret: Secret::generate(HMAC_SHA256, &SystemRandom::new()).ok(),
        }
    }

    /// Begins to count, for one more watcher.
    pub(crate) fn add_watcher(&self, now: Moment) {
        let _one = self.lock_watchers();
        if self.watchers.fetch_add(1, Ordering::Relaxed) == 0 {
            self.clear(now);
        }
    }

    /// A watcher is gone. Without any, what was counted is dropped.
    pub(crate) fn remove_watcher(&self) {
        let _one = self.lock_watchers();
        if self.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.clear(Moment::ZERO);
        }
    }

    /// Held while a watcher comes or goes: the first one must not clear before the last one does.
    fn lock_watchers(&self) -> MutexGuard<'_, ()> {
        let lock = self.changing_watchers.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self, now: Moment) {
        self.missed.store(0, Ordering::Relaxed);
        for part in &self.parts {
            *part.lock().unwrap_or_else(PoisonError::into_inner) = Windows::new(self.hash, now);
        }
    }

    /// Whether there is a watcher. The only cost of a decision without one.
    pub(crate) fn is_watched(&self) -> bool {
        // Relaxed: a decision that does not see a new watcher yet is not counted.
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// Counts the keys of a request.
    #[cold]
    pub(crate) fn count(&self, request: &Request<'_>, resolved: &Resolved<'_>, answer: &Answer) {
        let Some(mut part) = self.lock_any() else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let window = &mut part.current;
        for (index, status) in answer.statuses.iter().enumerate() {
            let (Status::Limited(limited), Some(key)) = (status, resolved.key(index)) else {
                continue;
            };
            let label = || Arc::new(Label::of(&limited.rule, request, index));
            window.decisions += 1;
            window.hottest.add(key, label);
            if is_denied(limited, answer) {
                window.denials += 1;
                window.most_denied.add(key, label);
            }
        }
    }

    /// What was counted in the last windows, the `max` most frequent keys of each kind.
    pub(crate) fn snapshot(&self, max: usize, now: Moment) -> HotKeys {
        let mut found = HotKeys {
            missed: self.missed.load(Ordering::Relaxed),
            ..HotKeys::default()
        };
        let (mut hottest, mut most_denied) = (Merged::new(), Merged::new());
        for part in &self.parts {
            let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
            part.turn(self.hash, now);
            let previous = part.previous.iter().map(|(since, window)| (*since, window));
            for (since, window) in previous.chain([(part.since, &part.current)]) {
                found.decisions += window.decisions;
                found.denials += window.denials;
                found.span = found.span.max(now.since(since));
                hottest.add(&window.hottest);
                most_denied.add(&window.most_denied);
            }
        }
        let max = max.min(HOT_KEYS_MAX);
        (found.error_max, found.denial_error_max) = (hottest.error_max(), most_denied.error_max());
        found.hottest = hottest.finish(max);
        found.most_denied = most_denied.finish(max);
        found
    }

    /// Twelve hexadecimal digits that stand for a value. They are the same for equal values, as
    /// long as the process runs, and do not tell the value.
    pub(crate) fn hash_value(&self, value: &[u8]) -> Option<String> {
        let tag = sign(self.secret.as_ref()?, value);
        let digits = tag.as_ref().iter().take(HASH_BYTES);
        Some(digits.map(|byte| format!("{byte:02x}")).collect())
    }

    /// A part that no other thread uses now, first the one of this thread.
    fn lock_any(&self) -> Option<MutexGuard<'_, Windows>> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed));
        let own = OWN.with(|own| *own);
        let mut parts = (0..PARTS).map(|offset| &self.parts[own.wrapping_add(offset) % PARTS]);
        parts.find_map(|part| part.try_lock().ok())
    }
}

impl fmt::Debug for HotKeyCounts {
    /// Without the keys: they may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotKeyCounts").finish_non_exhaustive()
    }
}

/// Whether a limit denied, as [`DescriptorOutcome::Denied`] is counted.
fn is_denied(limited: &Limited, answer: &Answer) -> bool {
    matches!(limited.decision, Decision::Deny(_))
        && DescriptorOutcome::of_limited(limited, answer) == DescriptorOutcome::Denied
}

// === impl Windows ===

impl Windows {
    const fn new(hash: SetHash, since: Moment) -> Windows {
        Windows {
            since,
            current: Window::new(hash),
            previous: None,
        }
    }

    /// Begins a new window if the current one is over.
    fn turn(&mut self, hash: SetHash, now: Moment) {
        if now.since(self.since) >= HOT_KEYS_WINDOW {
            let over = std::mem::replace(&mut self.current, Window::new(hash));
            self.previous = Some((self.since, over));
            self.since = now;
        }
    }
}

// === impl Window ===

impl Window {
    const fn new(hash: SetHash) -> Window {
        Window {
            hottest: Sketch::new(hash),
            most_denied: Sketch::new(hash),
            decisions: 0,
            denials: 0,
        }
    }
}

// === impl Label ===

impl Label {
    fn of(rule: &Arc<RuleName>, request: &Request<'_>, index: usize) -> Label {
        let descriptor = &request.descriptors[index];
        let kept = OwnedDescriptor::cut(descriptor, ENTRIES_MAX, TEXT_BYTES_MAX);
        Label {
            rule: Arc::clone(rule),
            is_whole: kept.has_entries_of(descriptor),
            descriptor: kept,
        }
    }
}

// === impl HotKey ===

impl HotKey {
    /// A descriptor that counts under the key; of several, the one that was seen first.
    pub fn descriptor(&self) -> Descriptor<'_> {
        self.label.descriptor.descriptor()
    }

    /// Whether [`HotKey::descriptor`] is complete. Of a large one, only the beginning is kept.
    pub fn is_whole(&self) -> bool {
        self.label.is_whole
    }
}

#[cfg(test)]
mod tests;
