//! What rustls is asked to do on either side.

use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ServerConfig};
use saline_protocol::transport::{Error, ErrorKind, Result, Tls, VerifyPeer};

use crate::certificate::{Own, authorities};
use crate::verifier::AnyServer;

/// The serving side, which speaks `protocol` inside, and the SHA-256 of the certificate that it shows.
/// Without a certificate of its own in `tls` it shows one that is made now.
///
/// # Errors
/// `Config` when `tls` holds what cannot be read or does not fit together; `Refused` when the system
/// gives no randomness.
pub fn server(tls: Option<&Tls>, protocol: &[u8]) -> Result<(ServerConfig, [u8; 32])> {
    let own = Own::of_server(tls)?;
    let hash = own.hash();
    let builder = ServerConfig::builder_with_provider(crypto())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unfit)?;
    let builder = match tls.map(authorities).transpose()?.flatten() {
        None => builder.with_no_client_auth(),
        Some(authorities) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), crypto());
            let verifier = match tls.map(|tls| tls.verify) {
                Some(VerifyPeer::Optional) => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            builder.with_client_cert_verifier(verifier.build().map_err(unfit)?)
        }
    };
    let mut config = builder
        .with_single_cert(own.chain, own.key)
        .map_err(unfit)?;
    config.alpn_protocols = vec![protocol.to_vec()];
    config.send_tls13_tickets = 0;
    Ok((config, hash))
}

/// The connecting side, which speaks `protocol` inside. Unless `tls` says otherwise, it takes any
/// certificate whose key the server proves to hold.
///
/// # Errors
/// `Config` when `tls` holds what cannot be read or does not fit together.
pub fn client(tls: Option<&Tls>, protocol: &[u8]) -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(crypto())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(unfit)?;
    let builder = match tls.map(authorities).transpose()?.flatten() {
        Some(authorities) => {
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(authorities), crypto());
            builder.with_webpki_verifier(verifier.build().map_err(unfit)?)
        }
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer::new(crypto()))),
    };
    let mut config = match tls.map(Own::given).transpose()?.flatten() {
        Some(own) => builder
            .with_client_auth_cert(own.chain, own.key)
            .map_err(unfit)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

fn unfit(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("ssl: cannot set up TLS: {error}"),
    )
    .with_source(error)
}
