//! Sliding logs of more entries than a test would make one by one.

/// Adds this many entries of one unit, a microsecond after each other.
pub(super) const APPEND: &str = "local size = redis.call('STRLEN', KEYS[1]) \
    local last = redis.call('GETRANGE', KEYS[1], size - 11, size - 1) \
    local at, sum = struct.unpack('>I7I4', last) \
    local entries = {} \
    for i = 1, ARGV[1] do entries[i] = struct.pack('>I7I4', at + i, sum + i) end \
    return redis.call('SETRANGE', KEYS[1], size, table.concat(entries))";
