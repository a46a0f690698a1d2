//! The conformance suite that any transport crate runs.
//!
//! A backend that passes runs a master and its minions; the requirements are the contract of
//! [`saline_protocol::transport`] as data, each with its sentence, its reason, and where to look
//! when it fails. The suite stands on `saline-protocol` alone.
//!
//! # Adopting it
//!
//! In `Cargo.toml`, with this crate among the `[dev-dependencies]`:
//!
//! ```toml
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! and in `tests/conformance.rs`:
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
//! That is all; with the other methods of [`Backend`] the suite tests more (hostile bytes, a bad
//! network, sockets in the file system) and knows of gaps.
//!
//! # Running it
//!
//! `cargo test --test conformance` runs all of it, `-- REQ` one area, `-- REQ-003` one requirement;
//! `cargo nextest run` works as well. Each [`Requirement`] comes to a [`Verdict`], and the whole
//! succeeds, with exit code 0, when none of them is a failure:
//!
//! - Requirements of a capability that the backend does not declare are skipped, which is decided before
//!   anything runs. [`Backend::skips`] has the checked-in list of them, so that no skip goes unnoticed.
//! - A [known gap](Backend::known_gaps) is run all the same, and passing it is a failure, so that no
//!   list outlives its reason.
//! - Random choices come from one seed, which is printed; `SALINE_CONFORMANCE_SEED` repeats it.
//!
//! Every whole run writes its [report] to `target/conformance`.
//!
//! # What else is here
//!
//! [`requirements`] lists all requirements, and [`contract`] writes `docs/transport-contract.md` from
//! them. They are written with the [`kit`]; a backend may use it in tests of its own, and then depends on
//! an exact version.
//!
//! # Versions
//!
//! The suite has the version of the contract that it tests, and makes the same promise: within a major
//! version (before 1.0.0, a minor one) a backend keeps every [`MUST`](Level::Must) that it kept. New
//! requirements begin as a [`SHOULD`](Level::Should), which a backend that does not keep it yet declares
//! as a known gap; an id is never used again for anything else. `docs/versions.md` says it in full.

mod backend;
mod busy;
mod check;
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
mod verdict;

pub use backend::{Backend, KnownGap, UnixSocket, Wire};
pub use child::answer_if_asked;
pub use failure::{Expecting, Failure, Outcome};
pub use kit::RawTransport;
pub use requirement::{Level, Need, Requirement, Running};
pub use run::{run_all, run_one};
pub use verdict::Verdict;

/// The `main` of a `harness = false` test that runs the suite on one [`Backend`], given as an
/// expression: [`run_all`] of it.
#[macro_export]
macro_rules! conformance_main {
    ($backend:expr) => {
        fn main() -> ::std::process::ExitCode {
            $crate::run_all($backend)
        }
    };
}
