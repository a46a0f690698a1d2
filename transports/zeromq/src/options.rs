//! The options of this backend in the configuration.

use saline_protocol::transport::{OptionKind, OptionSpec, Options};

/// The options of the section `zeromq`.
pub(crate) const SPECS: &[OptionSpec] = &[OptionSpec {
    name: "backlog",
    kind: OptionKind::Integer,
    secret: false,
    help: "connections that wait to be accepted, as listen(2) counts them (4096)",
}];

/// Returns the length of the queue of connections that wait to be accepted. libzmq's own 100 makes the
/// minions of a restarted master wait for their TCP retransmissions.
pub(crate) fn backlog(options: &Options) -> i32 {
    i32::try_from(options.integer("backlog", 4096)).unwrap_or(i32::MAX)
}
