//! An access log of arbitrary bytes, through a complete replay.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::access_log(input));
