//! Fuzzes the target that has this file's name.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| saline_fuzz_targets::run(env!("CARGO_BIN_NAME"), bytes));
