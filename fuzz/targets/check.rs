//! A body of `/v1/check` of arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::check(input));
