//! Fuzz target for recordings, run by `cargo xtask fuzz`. The checked properties are in
//! `oracles/recording.rs`; `cargo test` checks them, too.
#![no_main]

include!("../oracles/recording.rs");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| recording(bytes));
