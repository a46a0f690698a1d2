//! The operator's commands: arguments, output formats, exit codes.
//!
//! Each command is one function; a main only chooses the transports:
//!
//! ```no_run
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> std::process::ExitCode {
//!     let registry = saline_protocol::transport::Registry::new();
//!     saline_cli::saline(std::env::args_os(), registry, |_| &[]).await
//! }
//! ```
//!
//! With an output format for programs, the standard output holds only data; every other text goes to
//! the standard error output, one line each. Exit codes: 0 for success, 1 when a minion failed or did
//! not answer, 2 when no minion matched, the master cannot resolve the target, or no master answers, 42 when
//! the function is missing, 64 for an unknown option, a malformed value of one or a malformed target.

mod absence;
mod arguments;
mod batch_report;
mod commands;
mod completion;
mod dates;
mod exit;
mod glob;
mod interrupt;
mod kept_token;
mod names;
mod output;
mod password;
mod process_user;
mod report;
mod screen;
mod settings;
mod status_line;
mod user_name;

use std::ffi::OsString;
use std::process::ExitCode;

use saline_config::MasterConfig;
use saline_messages::{KeyReply, KeyRequest};
use saline_protocol::transport::Registry;

pub use commands::call::{FunctionCall, FunctionReturn};
pub use completion::{Program, complete};
pub use saline_client::ParametersOf;

/// `saline`: runs a function on minions and prints what they return. The first of `words` is the
/// program's name. The arguments of secret parameters are secret without being asked, of functions that `parameters_of`
/// knows. Catches SIGINT and SIGTERM: the first signal ends the command in order, the second
/// ends the process at once.
///
/// # Cancel safety
/// The job may have been published when the future is dropped.
pub async fn saline(
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
    parameters_of: ParametersOf,
) -> ExitCode {
    screen::on_standard_streams(async |screen| {
        commands::saline::saline(screen, words, registry, parameters_of).await
    })
    .await
}

/// `saline-cp`: copies files of this machine to minions. Catches signals as [`saline`] does.
///
/// # Cancel safety
/// The job may have been published when the future is dropped.
pub async fn saline_cp(words: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    screen::on_standard_streams(async |screen| commands::cp::cp(screen, words, registry).await)
        .await
}

/// `saline-run`: has the master carry out a function and prints its return, or follows the event bus.
///
/// # Cancel safety
/// The run may have been begun when the future is dropped, and goes on.
pub async fn saline_run(words: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    screen::on_standard_streams(async |screen| commands::run::run(screen, words, registry).await)
        .await
}

/// `saline-key`: lists, accepts, rejects and deletes the keys of minions. Asks the running master;
/// when none answers, `offline` works on its key store.
///
/// # Cancel safety
/// Keys may have been changed when the future is dropped.
pub async fn saline_key(
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
    offline: impl Fn(&MasterConfig, KeyRequest) -> Result<KeyReply, String>,
) -> ExitCode {
    screen::on_standard_streams(async |screen| {
        commands::key::key(screen, words, registry, &offline).await
    })
    .await
}

/// `saline-call`: runs a function on this machine, beside its minion. `carry_out` calls it, and gives the
/// return to the minion's master if that takes part; its error is one line.
///
/// # Cancel safety
/// As `carry_out`.
pub async fn saline_call(
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
    carry_out: impl AsyncFnOnce(FunctionCall, &Registry) -> Result<FunctionReturn, String>,
) -> ExitCode {
    screen::on_standard_streams(async |screen| {
        commands::call::call(screen, words, registry, carry_out).await
    })
    .await
}
