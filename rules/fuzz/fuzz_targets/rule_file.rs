//! Fuzz target for rule files, run by `cargo xtask fuzz`. The checked properties are in
//! `oracles/rule_file.rs`; `cargo test` checks them, too.
#![no_main]

// Debug assertions compare values with their static types.
const _: () = assert!(cfg!(debug_assertions));

include!("../oracles/rule_file.rs");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rule_file(bytes));
