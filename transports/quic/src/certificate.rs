//! What TLS is asked to do inside QUIC: encrypt, and show which certificate the peer holds the key of.
//! Unless `ssl` says otherwise, whether that is the right one is decided by the channel above.

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ConnectionError, TransportErrorCode};
use rustls::pki_types::CertificateDer;
use saline_protocol::transport::{Error, ErrorKind, Result, Tls};

/// The protocol as TLS negotiates it: whoever speaks another is refused in the handshake.
const PROTOCOL: &[u8] = b"saline/1";

/// The server's TLS, and the SHA-256 of the certificate that it shows.
///
/// # Errors
/// `Config` when `ssl` asks for what cannot be; `Refused` when the system gives no randomness.
pub(crate) fn server(tls: Option<&Tls>) -> Result<(QuicServerConfig, [u8; 32])> {
    let (config, hash) = saline_tls::server(tls, PROTOCOL)?;
    let config = QuicServerConfig::try_from(config).map_err(unfit)?;
    Ok((config, hash))
}

/// The client's TLS.
///
/// # Errors
/// `Config` when `ssl` asks for what cannot be.
pub(crate) fn client(tls: Option<&Tls>) -> Result<QuicClientConfig> {
    QuicClientConfig::try_from(saline_tls::client(tls, PROTOCOL)?).map_err(unfit)
}

/// SHA-256 of the certificate that the peer of `connection` showed.
pub(crate) fn shown(connection: &quinn::Connection) -> Option<[u8; 32]> {
    let identity = connection.peer_identity()?;
    let chain = identity.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    chain.first().map(|der| saline_tls::hash(der))
}

/// Why a connection ended, if it was TLS that ended it.
pub(crate) fn why(error: &ConnectionError) -> Option<String> {
    match error {
        ConnectionError::TransportError(ours) => {
            alert(ours.code).map(|alert| saline_tls::denied(alert, &ours.reason))
        }
        ConnectionError::ConnectionClosed(theirs) => {
            alert(theirs.error_code).map(saline_tls::refused)
        }
        _ => None,
    }
}

/// The alert in a QUIC error code (RFC 9001, 4.8).
fn alert(code: TransportErrorCode) -> Option<u8> {
    let code = u64::from(code).checked_sub(0x100)?;
    u8::try_from(code).ok()
}

fn unfit(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Config, "cannot set up TLS").with_source(error)
}
