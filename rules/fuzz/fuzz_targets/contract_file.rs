//! Fuzz target for contract files, run by `cargo xtask fuzz`. The checked properties are in
//! `oracles/contract_file.rs`; `cargo test` checks them, too.
#![no_main]

include!("../oracles/contract_file.rs");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract_file(bytes));
