//! A body of `/v1/check` that is a list, of arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::checks(input));
