//! Fuzz target for messages between nodes, run by `cargo xtask fuzz`. The checked properties are in
//! `oracles/message.rs`; `cargo test` checks them, too.
#![no_main]

include!("../oracles/message.rs");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| message(bytes));
