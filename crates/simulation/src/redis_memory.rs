//! The memory of Redis: predicted from the sizes of its keys and values.

mod peak;

pub(crate) use peak::MemoryPeak;

/// What a key takes beyond `MEMORY USAGE` and its places in the hash tables, as measured:
/// `redis.bytes.overhead` of `tollgate plan`.
const OVERHEAD_BYTES: usize = 39;
/// An entry of the table of keys.
const ENTRY_BYTES: usize = 24;
/// What a string has beside its text, as long as the text is short: a header and a zero.
const SHORT_BYTES: usize = 4;
/// The same of a text of at least [`SHORT_MAX`] bytes.
const LONG_BYTES: usize = 6;
const SHORT_MAX: usize = 256;
/// What a value has beside its string; a text of at most [`EMBEDDED_MAX`] bytes is in the same
/// allocation.
const OBJECT_BYTES: usize = 16;
const EMBEDDED_MAX: usize = 44;
/// A place of the two hash tables of keys, in bytes; places are a power of two.
const PLACE_BYTES: u64 = 16;
const PLACES_MIN: u64 = 4;

/// Keys in Redis, and the bytes that they take there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedisMemory {
    /// How many keys there are.
    pub keys: u64,
    /// What they take.
    pub bytes: u64,
}

// === impl RedisMemory ===

impl RedisMemory {
    /// What is there beyond `before`.
    pub(crate) const fn beyond(self, before: RedisMemory) -> RedisMemory {
        RedisMemory {
            keys: self.keys.saturating_sub(before.keys),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }

    /// The most keys and the most bytes of the two, which may be those of different moments.
    pub(crate) fn or_more(self, other: RedisMemory) -> RedisMemory {
        RedisMemory {
            keys: self.keys.max(other.keys),
            bytes: self.bytes.max(other.bytes),
        }
    }

    /// Adds keys that take these bytes, without hash tables.
    const fn add(&mut self, more: RedisMemory) {
        self.keys = self.keys.saturating_add(more.keys);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }

    /// The same keys with the hash tables that they need.
    fn with_tables(self) -> RedisMemory {
        let places = match self.keys {
            0 => 0,
            keys => keys.max(PLACES_MIN).next_power_of_two(),
        };
        RedisMemory {
            bytes: self.bytes.saturating_add(places * PLACE_BYTES),
            ..self
        }
    }
}

/// A key whose name and value have these lengths, without hash tables.
fn one_key(name: usize, value: usize) -> RedisMemory {
    RedisMemory {
        keys: 1,
        bytes: u64::try_from(usage(name, value) + OVERHEAD_BYTES).unwrap_or(u64::MAX),
    }
}

/// `MEMORY USAGE` of a string.
fn usage(name: usize, value: usize) -> usize {
    let value = match value <= EMBEDDED_MAX {
        true => allocation(OBJECT_BYTES + string(value)),
        false => OBJECT_BYTES + allocation(string(value)),
    };
    ENTRY_BYTES + allocation(string(name)) + value
}

/// The bytes of a string of this many bytes of text.
const fn string(text: usize) -> usize {
    match text < SHORT_MAX {
        true => text + SHORT_BYTES,
        false => text + LONG_BYTES,
    }
}

/// What jemalloc allocates for so many bytes: multiples of 16, then four sizes for each doubling.
const fn allocation(bytes: usize) -> usize {
    let step = match bytes <= 128 {
        true => 16,
        false => (bytes - 1).next_power_of_two() / 8,
    };
    bytes.next_multiple_of(step)
}
