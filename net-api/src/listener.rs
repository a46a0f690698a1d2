//! Accepts connections, and hands what they ask to the endpoints.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use saline_client::transport::{Context, Source};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service as _;

use crate::client_places::{ClientPlace, ClientPlaces};
use crate::forwarded::ClientAddress;
use crate::limits::{
    HEAD_TIMEOUT, MAX_CONNECTIONS, MAX_HEAD, MAX_HEADERS, TLS_TIMEOUT, WRITE_TIMEOUT,
};
use crate::tls::Certificate;
use crate::write_timeout::WriteTimeout;

/// The pause after the system has refused to hand over a connection, for example because no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The other end of a connection.
#[derive(Debug, Clone)]
struct Peer {
    from: SocketAddr,
    place: Arc<ClientPlace>,
}

/// Accepts connections, as a task of `accepting`, until that is cancelled. When there are as many as there may be, the source that has
/// most of those on which nobody has shown a login loses the oldest of them to a source that has fewer. Each is a task of `connections`;
/// when `accepting` is cancelled, it answers the request that it has begun, and ends.
pub(crate) async fn accept(
    listener: TcpListener,
    certificate: Option<Arc<Certificate>>,
    router: Router,
    accepting: Context,
    connections: Context,
) {
    let places = ClientPlaces::new(MAX_CONNECTIONS);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection cannot be accepted: {error}");
                accepting.clock.pause(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = places.take(Source::of(from)) else {
            tracing::debug!("{from}: all {MAX_CONNECTIONS} connections are in use");
            continue;
        };
        let peer = Peer {
            from,
            place: Arc::new(place),
        };
        let (certificate, router) = (certificate.clone(), router.clone());
        let accepting = accepting.clone();
        connections.spawn(async move {
            let place = Arc::clone(&peer.place);
            tokio::select! {
                () = connect(bounded(stream), peer, certificate, router, accepting) => {}
                () = place.given_up() => {
                    tracing::debug!("{from}: the connection makes room for that of another address");
                }
            }
        });
    }
}

/// Answers the requests of a connection, after the handshake of TLS if there is a certificate.
async fn connect(
    stream: WriteTimeout<TcpStream>,
    peer: Peer,
    certificate: Option<Arc<Certificate>>,
    router: Router,
    accepting: Context,
) {
    let from = peer.from;
    let stopping = accepting.cancel.cancelled();
    let Some(certificate) = certificate else {
        return serve(stream, peer, router, stopping).await;
    };
    let clock = accepting.clock;
    let handshake = certificate.acceptor().accept(stream);
    let handshake = tokio::select! {
        () = accepting.cancel.cancelled() => return,
        shaken = clock.deadline(clock.after(TLS_TIMEOUT), handshake) => shaken,
    };
    match handshake {
        Ok(Ok(stream)) => serve(stream, peer, router, stopping).await,
        Ok(Err(error)) => tracing::debug!("{from}: no TLS: {error}"),
        Err(_) => tracing::debug!("{from}: the handshake of TLS took too long"),
    }
}

/// Returns the stream of a connection that ends when its client reads nothing, or is not there any more.
fn bounded(stream: TcpStream) -> WriteTimeout<TcpStream> {
    // For a client that vanished: the system takes a few bytes for it, such as those of an event stream, without waiting.
    let milliseconds = u32::try_from(WRITE_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    if let Err(error) = rustix::net::sockopt::set_tcp_user_timeout(&stream, milliseconds) {
        tracing::debug!("a connection has no time limit of the system: {error}");
    }
    WriteTimeout::new(stream, WRITE_TIMEOUT)
}

/// Binds the address of the API.
///
/// # Errors
/// As the system refuses it.
pub(crate) async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Answers the requests of one connection, until `stopping` and the end of the request that it has begun by then.
async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(
    stream: S,
    Peer { from, place }: Peer,
    router: Router,
    stopping: impl Future<Output = ()>,
) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        let extensions = request.extensions_mut();
        extensions.insert(ClientAddress::of(from));
        extensions.insert(Arc::clone(&place));
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), answer);
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopping => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!("{from}: the connection ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use saline_client::transport::Clock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::sync::oneshot;

    use super::*;

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: api\r\n\r\n";

    fn client() -> (DuplexStream, WriteTimeout<DuplexStream>) {
        let (client, server) = tokio::io::duplex(1_024);
        (client, WriteTimeout::new(server, WRITE_TIMEOUT))
    }

    fn peer() -> Peer {
        let from = SocketAddr::from(([192, 0, 2, 7], 4_711));
        let place = ClientPlaces::new(1).take(Source::of(from)).unwrap();
        Peer {
            from,
            place: Arc::new(place),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_its_answer_loses_its_connection() {
        let (mut client, server) = client();
        let router = Router::new().route("/", get(async || vec![b'a'; 1_000_000]));
        client.write_all(GET).await.unwrap();
        let began = Clock.now();
        let serving = serve(server, peer(), router, std::future::pending());
        let ended = Clock.deadline(Clock.after(10 * WRITE_TIMEOUT), serving);
        ended.await.unwrap();
        let taken = Clock.now() - began;
        assert!(
            taken >= WRITE_TIMEOUT && taken < 2 * WRITE_TIMEOUT,
            "{taken:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_begun_is_answered_before_the_end() {
        let (mut client, server) = client();
        let (stop, stopped) = oneshot::channel();
        let (begun, mut beginning) = tokio::sync::mpsc::channel(1);
        let router = Router::new().route(
            "/",
            get(async move || {
                begun.send(()).await.unwrap();
                Clock.pause(Duration::from_secs(2)).await;
                "done"
            }),
        );
        let stopping = async { stopped.await.unwrap() };
        let asking = async {
            client.write_all(GET).await.unwrap();
            beginning.recv().await.unwrap();
            stop.send(()).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let ((), answer) = tokio::join!(serve(server, peer(), router, stopping), asking);
        assert!(answer.ends_with("done"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_ends_at_once() {
        let (mut client, server) = client();
        let (stop, stopped) = oneshot::channel();
        let router = Router::new().route("/", get(async || "done"));
        let stopping = async { stopped.await.unwrap() };
        let asking = async {
            client.write_all(GET).await.unwrap();
            let mut answer = [0; 1_024];
            assert_ne!(client.read(&mut answer).await.unwrap(), 0);
            stop.send(()).unwrap();
            assert_eq!(client.read(&mut answer).await.unwrap(), 0);
        };
        let began = Clock.now();
        tokio::join!(serve(server, peer(), router, stopping), asking);
        assert!(Clock.now() - began < HEAD_TIMEOUT);
    }
}
