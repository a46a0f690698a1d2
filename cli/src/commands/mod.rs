//! The commands, one file for each program or function.

mod about;
pub(crate) mod call;
pub(crate) mod cp;
pub(crate) mod events;
mod follow;
pub(crate) mod key;
mod keystore;
mod login;
mod lookup_states;
mod master_away;
mod preview_target;
pub(crate) mod run;
pub(crate) mod saline;

use saline_client::ClientError;
use saline_data::printable::escape_line;
use saline_targeting::{CompiledTarget, Target};

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

/// Compiles a target, so that a malformed one is reported even if no master runs. Returns none after it has been reported.
fn compiled(screen: &mut Screen<'_>, program: &str, target: Target) -> Option<CompiledTarget> {
    let expression = target.expression.clone();
    match target.compile() {
        Ok(target) => Some(target),
        Err(error) => {
            screen.note(escape_line(&format!("{program}: error: {error}")));
            if let Some(picture) = error.picture(&expression) {
                screen.note(picture);
            }
            None
        }
    }
}
