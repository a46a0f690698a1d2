//! The commands, one file for each program or function.

mod about;
pub(crate) mod call;
pub(crate) mod events;
mod follow;
pub(crate) mod key;
mod keystore;
mod lookup_states;
mod master_away;
mod preview_target;
pub(crate) mod run;
pub(crate) mod saline;

use saline_client::ClientError;
use saline_data::printable::escape_line;

use crate::exit;
use crate::screen::Screen;

/// Prints the error, and returns the exit code.
fn failed(screen: &mut Screen<'_>, error: &ClientError) -> u8 {
    // A part of it may be the master's words.
    screen.note(escape_line(&format!("ERROR: {error}")));
    match error {
        ClientError::MasterDown { .. }
        | ClientError::NeverStarted { .. }
        | ClientError::MasterGone { .. }
        | ClientError::BadTarget(_) => exit::NOBODY,
        _ => exit::FAILED,
    }
}
