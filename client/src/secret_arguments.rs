//! The arguments of a job that are secret.

use std::fmt;

use saline_data::Value;
use saline_messages::ArgumentPlace;

/// The secret arguments of a job, by their places among all arguments, in the order of these. `Debug` shows the places alone.
#[derive(Clone, PartialEq, Default)]
pub struct SecretArguments(pub Vec<(ArgumentPlace, Value)>);

impl fmt::Debug for SecretArguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = self.0.iter().map(|(place, _)| place);
        f.debug_set().entries(places).finish()
    }
}
