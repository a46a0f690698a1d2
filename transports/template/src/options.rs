//! What can be set for this backend in its section of the configuration.

use saline_protocol::transport::OptionSpec;

/// The options: name, kind, whether it is a secret, and one line for the operators' book. What is
/// not declared is refused before anything starts.
pub(crate) const SPECS: &[OptionSpec] = &[];
