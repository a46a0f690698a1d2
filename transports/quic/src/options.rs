//! What can be set for this backend in the configuration.

use saline_protocol::transport::{OptionKind, OptionSpec, Options};

/// The options of the section `quic`.
pub(crate) const SPECS: &[OptionSpec] = &[OptionSpec {
    name: "udp_buffer",
    kind: OptionKind::Integer,
    secret: false,
    help: "bytes of the socket's buffers, each way; beyond net.core.rmem_max it takes CAP_NET_ADMIN (4194304)",
}];

/// The size of the socket's buffers. With the system's usual 208 KiB a burst to a hundred
/// subscribers loses packets, and the last has it after 29 ms instead of 1.2.
pub(crate) fn udp_buffer(options: &Options) -> usize {
    let bytes = options.integer("udp_buffer", 4 * 1024 * 1024);
    // The system takes an int.
    usize::try_from(bytes.min(1 << 30)).unwrap_or(1 << 30)
}
