//! The memory of Redis: predicted from the sizes of its keys and values.

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

/// How many keys there are, and their bytes; each comes with the size of its name and of its value.
pub(crate) fn of(sizes: impl Iterator<Item = (usize, usize)>) -> (u64, u64) {
    let (mut keys, mut bytes) = (0_u64, 0);
    for (name, value) in sizes {
        keys += 1;
        bytes += usage(name, value) + OVERHEAD_BYTES;
    }
    let places = match keys {
        0 => 0,
        keys => keys.max(PLACES_MIN).next_power_of_two(),
    };
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    (keys, bytes.saturating_add(places * PLACE_BYTES))
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
