//! A trace of any bytes, through the whole of a replay.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::trace(input));
