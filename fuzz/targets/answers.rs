//! Replies of a script in Redis, of arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::answers(input));
