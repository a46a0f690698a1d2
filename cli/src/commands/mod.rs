//! The commands, one file each.

pub(crate) mod events;
pub(crate) mod jobs;
pub(crate) mod key;
mod keystore;
pub(crate) mod run;
pub(crate) mod saline;

use saline_client::ClientError;

use crate::exit;
use crate::screen::Screen;

/// Says what went wrong, and what to end with.
fn failed(screen: &mut Screen<'_>, error: &ClientError) -> u8 {
    screen.complain(format!("ERROR: {error}"));
    match error {
        ClientError::MasterDown { .. }
        | ClientError::NeverStarted { .. }
        | ClientError::MasterGone { .. }
        | ClientError::BadTarget(_) => exit::NOBODY,
        _ => exit::FAILED,
    }
}
