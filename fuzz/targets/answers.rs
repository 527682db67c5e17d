//! What a script in Redis answers, of any bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::answers(input));
