//! The conformance suite that any transport crate runs.
//!
//! A backend that passes runs a master and its minions; the requirements are the contract of
//! [`saline_protocol::transport`] as data, each with its sentence, its reason, and where to look
//! when it fails. The suite stands on `saline-protocol` alone. To adopt it, write
//! `tests/conformance.rs`, with `harness = false` in its `[[test]]`:
//!
//! ```no_run
//! # mod mine { pub use saline_inproc::InProc as Mine; }
//! use std::sync::Arc;
//! use saline_conformance::{Backend, conformance_main};
//! use saline_protocol::transport::Transport;
//!
//! #[derive(Debug)]
//! struct MyBackend;
//!
//! impl Backend for MyBackend {
//!     fn name(&self) -> &'static str { "mine" }
//!     fn transport(&self) -> Arc<dyn Transport> { Arc::new(mine::Mine::new()) }
//! }
//!
//! conformance_main!(MyBackend);
//! ```
//!
//! `cargo test --test conformance` runs all of it, `-- REQ` one area, `-- REQ-003` one requirement.
//! What a backend declares that it cannot do is skipped, which is decided before anything runs; a
//! known gap is run all the same, and passing it is a failure, so that no list outlives its reason.
//! Every whole run writes its [report] to `target/conformance`, and `cargo nextest run` works as well.
//! What is random is drawn from one seed, which is printed; `SALINE_CONFORMANCE_SEED` repeats it.

mod backend;
mod child;
pub mod contract;
mod failure;
pub mod kit;
mod quiet;
pub mod report;
mod requirement;
pub mod requirements;
mod run;
mod skips;

pub use backend::{Backend, KnownGap, Wire};
pub use child::answer_if_asked;
pub use failure::{Expecting, Failure, Outcome};
pub use requirement::{Level, Need, Requirement, Running};
pub use run::{Verdict, run_all, run_one};

/// The `main` of a `harness = false` test that runs the suite on one [`Backend`], given as an
/// expression.
#[macro_export]
macro_rules! conformance_main {
    ($backend:expr) => {
        fn main() -> ::std::process::ExitCode {
            $crate::run_all($backend)
        }
    };
}
