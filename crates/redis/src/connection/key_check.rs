//! Whether a server rejects keys that it does not serve where a script accesses them undeclared.
//!
//! A node of a Redis Cluster does, also for keys that a script call does not declare in `KEYS`. So
//! one call may have keys of several slots: what the node does not serve fails, and nothing is
//! lost.
//!
//! A proxy may send each call to one of several servers by its declared keys, and these servers may
//! accept any key: it would be counted in several places. So a server is asked first.

use bytes::BytesMut;

use crate::resp::{self, Reply};

/// How many keys are tried: if a node serves half of all slots, all of these are among them once in
/// four thousand million times. A node that serves all slots rejects none.
const TRIES_MAX: u32 = 32;
/// Replies with 1 if one of the keys is rejected because of its slot.
const SCRIPT: &[u8] = b"for i = 1, #ARGV do \
    local reply = redis.pcall('STRLEN', ARGV[i]) \
    local text = type(reply) == 'table' and reply.err or '' \
    if string.find(text, 'non local key', 1, true) then return 1 end \
    end return 0";

/// Writes the question, about keys with this prefix.
pub(super) fn write(out: &mut BytesMut, prefix: &str) {
    let words = 3 + usize::try_from(TRIES_MAX).unwrap_or(0);
    resp::command(out, words);
    resp::word(out, b"EVAL");
    resp::word(out, SCRIPT);
    resp::number(out, 0);
    for number in 0..TRIES_MAX {
        resp::word_of(out, &[prefix.as_bytes(), b"slot", &number.to_be_bytes()]);
    }
}

/// Whether the reply says that the server rejects such keys. A server that rejects the script does
/// not say so.
pub(super) fn read(reply: &Reply) -> bool {
    matches!(reply, Reply::Integer(1))
}
