//! Accepts connections, and hands what they ask to the endpoints.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use saline_protocol::transport::Context;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tower_service::Service as _;

use crate::limits::{HEAD_TIMEOUT, MAX_CONNECTIONS, MAX_HEAD, MAX_HEADERS, TLS_TIMEOUT};
use crate::request_log::ClientAddress;
use crate::tls::Certificate;

/// The pause after the system has refused to hand over a connection, for example because no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// Accepts connections until the context is cancelled. Further ones than there are places wait in the queue of the system.
pub(crate) async fn accept(
    listener: TcpListener,
    certificate: Option<Arc<Certificate>>,
    router: Router,
    context: Context,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection cannot be accepted: {error}");
                context.clock.pause(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (certificate, router) = (certificate.clone(), router.clone());
        let clock = context.clock;
        context.spawn(async move {
            let _place = place;
            let Some(certificate) = certificate else {
                return serve(stream, from, router).await;
            };
            let handshake = certificate.acceptor().accept(stream);
            match clock.deadline(clock.after(TLS_TIMEOUT), handshake).await {
                Ok(Ok(stream)) => serve(stream, from, router).await,
                Ok(Err(error)) => tracing::debug!("{from}: no TLS: {error}"),
                Err(_) => tracing::debug!("{from}: the handshake of TLS took too long"),
            }
        });
    }
}

/// Binds the address of the API.
///
/// # Errors
/// As the system refuses it.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers the requests of one connection.
async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(
    stream: S,
    from: SocketAddr,
    router: Router,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ClientAddress(from));
        router.clone().call(request)
    });
    let served = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
    if let Err(error) = served {
        tracing::debug!("{from}: the connection ended: {error}");
    }
}
