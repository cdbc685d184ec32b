//! Rule files: run by `cargo xtask fuzz`. The law is in `oracles/rule_file.rs`, and
//! `cargo test` holds it too.
#![no_main]

// Without them values are not compared with their types.
const _: () = assert!(cfg!(debug_assertions));

include!("../oracles/rule_file.rs");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| rule_file(bytes));
