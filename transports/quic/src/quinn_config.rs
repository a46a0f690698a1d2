//! The parameters of quinn.

use std::sync::Arc;
use std::time::Duration;

use quinn::{ConnectionIdGenerator, EndpointConfig, TransportConfig};
use quinn_proto::RandomConnectionIdGenerator;
use saline_protocol::transport::Limits;

/// Bytes on their way on one stream.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// Bytes that wait on one connection to be sent or acknowledged, beside the engine's queues.
const SEND_WINDOW: u64 = 4 * 1024 * 1024;

/// The longest round trip that is assumed before one was measured (RFC 9002, 6.2.2).
const ROUND_TRIP: Duration = Duration::from_millis(333);

/// The length of connection IDs in bytes.
const CONNECTION_ID: usize = 8;

/// Returns the parameters of an endpoint, whose connection IDs are random throughout.
///
/// Those that quinn makes unless told otherwise have three random bytes. A Retry (RFC 9000, 17.2.5) names one, and quinn does not
/// look whether a connection has it already: the client's packets go to that connection then, and the handshake stands still
/// until its deadline. That met one of 6,000 clients while a thousand connections stood.
pub(crate) fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.cid_generator(connection_ids);
    config
}

fn connection_ids() -> Box<dyn ConnectionIdGenerator> {
    Box::new(RandomConnectionIdGenerator::new(CONNECTION_ID))
}

/// Returns QUIC's parameters: one stream, opened by the client, and no time-out of its own, because
/// the engine judges silence.
pub(crate) fn transport_config(limits: &Limits, streams: u8) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.max_idle_timeout(None);
    // A packet that was lost in the handshake is sent again after three times this: there has to be
    // time for that, and for a second one.
    let round_trip = limits.handshake_timeout / 20;
    config.initial_rtt(round_trip.clamp(Duration::from_millis(1), ROUND_TRIP));
    config.max_concurrent_bidi_streams(streams.into());
    config.max_concurrent_uni_streams(0u8.into());
    config.stream_receive_window(STREAM_WINDOW.into());
    config.receive_window(STREAM_WINDOW.into());
    config.send_window(SEND_WINDOW);
    config.datagram_receive_buffer_size(None);
    Arc::new(config)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_connection_id_is_made_twice() {
        let mut ids = connection_ids();
        // Of three random bytes twelve would be there already.
        let made: HashSet<_> = (0..20_000).map(|_| ids.generate_cid()).collect();
        assert_eq!(made.len(), 20_000);
    }
}
