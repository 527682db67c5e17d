//! Reservations that clients settle, packed for the general script.
//!
//! For a request with a reservation: the step (1), the number of lines (1), the lifetime of
//! the reservation (5), whether shadow limits give way to units that others have reserved (1), and
//! a memo of the caller after its length (2). For a settlement: the step (1) and the number of
//! lines (1), and after each line its index in the reserved request (1). The last key is that of
//! the reservation.

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

impl ScriptRequest {
    /// Decides lines; if they are allowed, stores their charges under `record` for `lasts`
    /// microseconds. Whether it `gives_way`: a shadow limit whose units are reserved by others
    /// counts as exceeded, and does not block the request. The memo is at most [`MEMO_BYTES_MAX`]
    /// long.
    pub(crate) fn remember(
        lines: &[(&Line<'_>, &FittedLimit)],
        record: Key,
        (lasts, gives_way): (u64, bool),
        memo: &[u8],
    ) -> ScriptRequest {
        let mut packed = Vec::with_capacity(10 + memo.len() + 38 * lines.len());
        packed.put_slice(&[StepNumber::Remember.byte(), count(lines.len())]);
        packed.put_uint(lasts.min(UNITS_MAX), 5);
        packed.put_u8(u8::from(gives_way));
        packed.put_u16(u16::try_from(memo.len()).expect("it is at most MEMO_BYTES_MAX"));
        packed.put_slice(memo);
        for (line, fitted) in lines {
            put_line(&mut packed, line, fitted);
        }
        let keys = lines.iter().map(|(line, _)| line.charge.key);
        of_record(packed, keys, record)
    }

    /// Settles the reservation stored under `record`.
    pub(crate) fn settle(lines: &[SettledLine<'_, '_>], record: Key) -> ScriptRequest {
        let mut packed = Vec::with_capacity(2 + 39 * lines.len());
        packed.put_slice(&[StepNumber::Settle.byte(), count(lines.len())]);
        for one in lines {
            put_line(&mut packed, one.line, one.fitted);
            packed.put_u8(one.index);
        }
        let keys = lines.iter().map(|one| one.line.charge.key);
        of_record(packed, keys, record)
    }
}

fn of_record(packed: Vec<u8>, keys: impl Iterator<Item = Key>, record: Key) -> ScriptRequest {
    let keys: Vec<Key> = keys.chain([record]).collect();
    ScriptRequest::General(General {
        script: ScriptKind::General,
        states: keys.len() - 1,
        keys,
        packed,
        writes: true,
        is_last_step: false,
    })
}

fn count(lines: usize) -> u8 {
    u8::try_from(lines).expect("a request has at most CHARGES_MAX lines")
}
