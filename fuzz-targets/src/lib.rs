//! The fuzz targets of Saline: one function for each decoder that meets the bytes of a peer, of a file
//! or of an operator.
//!
//! [`TARGETS`] is the only list. The fuzzer runs a target through a binary of a few lines in `fuzz/`, and
//! `cargo test -p saline-fuzz-targets` runs all of them on stable Rust: on every input in `corpora/`, on
//! the [seeds](Target::seeds), on changed copies of both, and on random bytes. `docs/fuzzing.md` has the
//! commands.
//!
//! [`Target::run`] holds every target to its bounds of memory and time; each function holds what else its
//! decoder promises, such as that what was decoded is encoded and decoded to the same.

mod configuration;
mod engine;
mod envelope;
mod golden;
mod grains;
mod hostile_noise;
mod initiator;
mod key_files;
mod measure;
mod messages;
mod names;
mod nats;
mod peers;
mod publications;
mod records;
mod responder;
mod scratch_folder;
mod shared_socket;
mod spool;
mod target;
mod target_expressions;
mod templates;
mod values;
mod zeromq;

pub use target::{TARGETS, Target, run};
