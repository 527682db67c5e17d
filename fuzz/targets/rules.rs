//! A rules file of arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::rules(input));
