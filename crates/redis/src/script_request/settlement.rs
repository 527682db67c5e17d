//! Reservations, packed for the general script.
//!
//! Of a request that is remembered: the step (1), the number of lines (1), how long the reservation
//! lasts (5), and what its maker wants to know again, after its length (2). Of a settlement: the
//! step (1) and the number of lines (1), and after each line its place in the request that was
//! remembered (1). The last key is that of the reservation.

use bytes::BufMut;
use tollgate_core::{Key, Line};

use super::{General, ScriptRequest, UNITS_MAX, Which, put_line};
use crate::fit::FittedLimit;

/// The steps, as the script counts them.
const REMEMBER: u8 = 6;
const SETTLE: u8 = 7;
/// The longest memo.
pub(crate) const MEMO_BYTES_MAX: usize = 65_535;

/// A line to be settled: its units are those that were really used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettledLine<'l, 'c> {
    /// Its place in the request that was remembered, from 1.
    pub(crate) place: u8,
    pub(crate) line: &'l Line<'c>,
    pub(crate) fitted: &'l FittedLimit,
}

impl ScriptRequest {
    /// Decides lines; if they are allowed, remembers under `record` what they were charged, for so
    /// many microseconds. The memo is at most [`MEMO_BYTES_MAX`] long.
    pub(crate) fn remember(
        lines: &[(&Line<'_>, &FittedLimit)],
        record: Key,
        lasts: u64,
        memo: &[u8],
    ) -> ScriptRequest {
        let mut packed = Vec::with_capacity(9 + memo.len() + 37 * lines.len());
        packed.put_slice(&[REMEMBER, count(lines.len())]);
        packed.put_uint(lasts.min(UNITS_MAX), 5);
        packed.put_u16(u16::try_from(memo.len()).expect("it is at most MEMO_BYTES_MAX"));
        packed.put_slice(memo);
        for (line, fitted) in lines {
            put_line(&mut packed, line, fitted);
        }
        let keys = lines.iter().map(|(line, _)| line.charge.key);
        of_record(packed, keys, record)
    }

    /// Settles what is remembered under `record`.
    pub(crate) fn settle(lines: &[SettledLine<'_, '_>], record: Key) -> ScriptRequest {
        let mut packed = Vec::with_capacity(2 + 38 * lines.len());
        packed.put_slice(&[SETTLE, count(lines.len())]);
        for one in lines {
            put_line(&mut packed, one.line, one.fitted);
            packed.put_u8(one.place);
        }
        let keys = lines.iter().map(|one| one.line.charge.key);
        of_record(packed, keys, record)
    }
}

fn of_record(packed: Vec<u8>, keys: impl Iterator<Item = Key>, record: Key) -> ScriptRequest {
    let keys: Vec<Key> = keys.chain([record]).collect();
    ScriptRequest::General(General {
        script: Which::General,
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
