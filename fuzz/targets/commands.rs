//! Commands of the Redis protocol of arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::commands(input));
