//! Recordings: run by `cargo xtask fuzz`. The law is in `oracles/recording.rs`, and
//! `cargo test` holds it too.
#![no_main]

include!("../oracles/recording.rs");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recording(bytes));
