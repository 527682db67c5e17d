//! Commands of the Redis protocol that ask for decisions, of arbitrary words.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::asks(input));
