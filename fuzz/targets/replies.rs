//! What a Redis server sends, of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::replies(input));
