//! Counts keys while they are watched.

use std::fmt;
use std::sync::Arc;

use crate::engine::Engine;
use crate::hot_keys::HotKeys;

/// The keys of an engine are counted until this is dropped.
pub struct KeyWatch(Arc<Engine>);

// === impl Engine ===

impl Engine {
    /// Begins to count which keys have the most decisions and denials. Of several watches, each
    /// sees what was counted since the first one.
    #[must_use = "counting ends when the watch is dropped"]
    pub fn watch_keys(self: &Arc<Self>) -> KeyWatch {
        self.hot_keys.add_watcher(self.stores().now());
        KeyWatch(Arc::clone(self))
    }

    /// Twelve hexadecimal digits that stand for a value in place of it: the same for equal values,
    /// as long as the process runs. `None` if the system has no random numbers.
    pub fn hash_value(&self, value: &[u8]) -> Option<String> {
        self.hot_keys.hash_value(value)
    }
}

// === impl KeyWatch ===

impl KeyWatch {
    /// The `max` most frequent keys of the current and the previous
    /// [`HOT_KEYS_WINDOW`](crate::HOT_KEYS_WINDOW); at most [`HOT_KEYS_MAX`](crate::HOT_KEYS_MAX).
    pub fn hot_keys(&self, max: usize) -> HotKeys {
        self.0.hot_keys.snapshot(max, self.0.stores().now())
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        self.0.hot_keys.remove_watcher();
    }
}

impl fmt::Debug for KeyWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyWatch")
    }
}
