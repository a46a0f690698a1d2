//! The parameters of quinn.

use std::sync::Arc;
use std::time::Duration;

use quinn::TransportConfig;
use saline_protocol::transport::Limits;

/// Bytes on their way on one stream.
const STREAM_WINDOW: u32 = 1024 * 1024;

/// Bytes that wait on one connection to be sent or acknowledged, beside the engine's queues.
const SEND_WINDOW: u64 = 4 * 1024 * 1024;

/// The longest round trip that is assumed before one was measured (RFC 9002, 6.2.2).
const ROUND_TRIP: Duration = Duration::from_millis(333);

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
