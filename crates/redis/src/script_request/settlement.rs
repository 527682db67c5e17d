//! Reservations that clients settle, packed for the general script.
//!
//! For a request with a reservation: the step (1), the number of lines (1), the lifetime of
//! the reservation (5), whether shadow limits give way to units that others have reserved (1),
//! whether the record is part of the reply instead of being stored (1), and a memo of the caller
//! after its length (2). For a settlement: the step (1) and the number of lines (1), after each
//! line its index in the reserved request (1), and at the end the record after its length (2), if
//! it is not stored. The last key is that of the reservation, if the record is stored.
//!
//! To store a record: the step (1), no lines (1), the lifetime (5), and the record after its length
//! (4). To take it: the step (1) and no lines (1).

use bytes::BufMut;
use tollgate_core::{Key, Line};

use super::{General, ScriptKind, ScriptRequest, StepNumber, UNITS_MAX, put_line};
use crate::fit::FittedLimit;

/// The longest memo.
pub(crate) const MEMO_BYTES_MAX: usize = 65_535;

/// A line to be settled: its units are the actual ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledLine<'l, 'c> {
    /// Its index in the reserved request, from 1.
    pub(crate) index: u8,
    pub(crate) line: &'l Line<'c>,
    pub(crate) fitted: &'l FittedLimit,
}

/// The settlement of one line, as long as the record of its reservation is not known.
pub(crate) struct LineToSettle {
    key: Key,
    packed: Vec<u8>,
}

// === impl LineToSettle ===

impl LineToSettle {
    pub(crate) fn new(line: &SettledLine<'_, '_>) -> LineToSettle {
        LineToSettle {
            key: line.line.charge.key,
            packed: pack_lines(std::slice::from_ref(line)),
        }
    }

    /// Settles it by this record, which [`ScriptRequest::take`] has returned.
    pub(crate) fn settle_by(&self, record: &[u8]) -> ScriptRequest {
        let mut packed = self.packed.clone();
        packed.put_u16(u16::try_from(record.len()).expect("a record without a memo is short"));
        packed.put_slice(record);
        general(packed, vec![self.key], 1)
    }
}

// === impl ScriptRequest ===

impl ScriptRequest {
    /// Decides lines; if they are allowed, stores their charges under `record` for `lasts`
    /// microseconds, or, without a name, replies with them in an additional state. Whether it
    /// `gives_way`: a shadow limit whose units are reserved by others counts as exceeded, and does
    /// not block the request. The memo is at most [`MEMO_BYTES_MAX`] long.
    pub(crate) fn remember(
        lines: &[(&Line<'_>, &FittedLimit)],
        record: Option<Key>,
        (lasts, gives_way): (u64, bool),
        memo: &[u8],
    ) -> ScriptRequest {
        let mut packed = Vec::with_capacity(11 + memo.len() + 38 * lines.len());
        packed.put_slice(&[StepNumber::Remember.byte(), count(lines.len())]);
        packed.put_uint(lasts.min(UNITS_MAX), 5);
        packed.put_slice(&[u8::from(gives_way), u8::from(record.is_none())]);
        packed.put_u16(u16::try_from(memo.len()).expect("it is at most MEMO_BYTES_MAX"));
        packed.put_slice(memo);
        for (line, fitted) in lines {
            put_line(&mut packed, line, fitted);
        }
        let states = lines.len() + usize::from(record.is_none());
        let keys = lines.iter().map(|(line, _)| line.charge.key);
        general(packed, keys.chain(record).collect(), states)
    }

    /// Stores a record that [`ScriptRequest::remember`] has returned, with the memo.
    pub(crate) fn store(record: Key, lasts: u64, [content, memo]: [&[u8]; 2]) -> ScriptRequest {
        let length = content.len() + memo.len();
        let mut packed = Vec::with_capacity(11 + length);
        packed.put_slice(&[StepNumber::Store.byte(), 0]);
        packed.put_uint(lasts.min(UNITS_MAX), 5);
        packed.put_u32(u32::try_from(length).expect("it is little more than MEMO_BYTES_MAX"));
        packed.put_slice(content);
        packed.put_slice(memo);
        general(packed, vec![record], 0)
    }

    /// Removes a record, and replies with it; its memo is left out.
    pub(crate) fn take(record: Key) -> ScriptRequest {
        general(vec![StepNumber::Take.byte(), 0], vec![record], 1)
    }

    /// Settles the reservation stored under `record`.
    pub(crate) fn settle(lines: &[SettledLine<'_, '_>], record: Key) -> ScriptRequest {
        let mut packed = pack_lines(lines);
        packed.put_u16(0);
        let keys = lines.iter().map(|one| one.line.charge.key);
        general(packed, keys.chain([record]).collect(), lines.len())
    }
}

/// A settlement of these lines, without the record.
fn pack_lines(lines: &[SettledLine<'_, '_>]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(4 + 39 * lines.len());
    packed.put_slice(&[StepNumber::Settle.byte(), count(lines.len())]);
    for one in lines {
        put_line(&mut packed, one.line, one.fitted);
        packed.put_u8(one.index);
    }
    packed
}

const fn general(packed: Vec<u8>, keys: Vec<Key>, states: usize) -> ScriptRequest {
    ScriptRequest::General(General {
        script: ScriptKind::General,
        states,
        keys,
        packed,
        writes: true,
        is_last_step: false,
    })
}

fn count(lines: usize) -> u8 {
    u8::try_from(lines).expect("a request has at most CHARGES_MAX lines")
}
