//! What can be set for this backend in the configuration.

use saline_protocol::transport::{OptionKind, OptionSpec, Options};

/// The options of the section `tcp`.
pub(crate) const SPECS: &[OptionSpec] = &[
    OptionSpec {
        name: "backlog",
        kind: OptionKind::Integer,
        secret: false,
        help: "connections that wait to be accepted, as listen(2) counts them (4096)",
    },
    OptionSpec {
        name: "nodelay",
        kind: OptionKind::Bool,
        secret: false,
        help: "whether small messages leave at once and not with the next ones (True)",
    },
];

/// The length of the queue of connections that wait to be accepted: long enough for the minions of a
/// restarted master, who else wait for their TCP retransmissions.
pub(crate) fn backlog(options: &Options) -> u32 {
    u32::try_from(options.integer("backlog", 4096)).unwrap_or(u32::MAX)
}

/// TCP_NODELAY. Writes are coalesced above, so that Nagle's algorithm would only add its delay.
pub(crate) fn nodelay(options: &Options) -> bool {
    options.bool("nodelay", true)
}
