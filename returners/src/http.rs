//! The destination `http`: a server that gets each batch in the body of a POST, as a list in JSON.
//!
//! A connection carries one request. The server has taken a batch when it answers with a status of 2xx. With 400, 413 or 422 it
//! refuses the records themselves; with any other one it gets the batch again later.

use std::sync::Arc;

use async_trait::async_trait;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use saline_config::HttpReturner;
use saline_data::Value;
use saline_protocol::transport::Context;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::columns::json_of;
use crate::{DeliveryError, Destination, Record, tls};

/// A server that takes records over HTTP.
#[derive(Debug)]
pub(crate) struct Http {
    settings: HttpReturner,
    uri: Uri,
    context: Context,
}

impl Http {
    /// # Errors
    /// When the address is none.
    pub(crate) fn new(settings: HttpReturner, context: Context) -> Result<Self, String> {
        let uri = settings.url.parse::<Uri>();
        let uri = uri.map_err(|error| format!("returner.http.url is not an address: {error}"))?;
        Ok(Self {
            settings,
            uri,
            context,
        })
    }

    async fn send(&self, body: String) -> Result<StatusCode, String> {
        let host = self.uri.host().unwrap_or_default();
        let is_tls = self.uri.scheme_str() == Some("https");
        let port = self.uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        // An address of IPv6 has brackets in a URL.
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((name, port)).await;
        let stream = stream.map_err(|error| format!("cannot connect to {host}:{port}: {error}"))?;
        let request = self.request(body)?;
        if !is_tls {
            return exchange(stream, request).await;
        }
        let authorities = self.settings.authorities.as_deref();
        let config = tls::client(authorities, &self.context).await?;
        let server = ServerName::try_from(name.to_owned());
        let server =
            server.map_err(|error| format!("{host} is not the name of a server: {error}"))?;
        let stream = TlsConnector::from(Arc::clone(&config))
            .connect(server, stream)
            .await
            .map_err(|error| format!("no TLS with {host}:{port}: {error}"))?;
        exchange(stream, request).await
    }

    fn request(&self, body: String) -> Result<Request<String>, String> {
        let authority = self
            .uri
            .authority()
            .map_or("", |authority| authority.as_str());
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(HOST, authority)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "saline-master")
            .header(CONNECTION, "close");
        if let Some(authorization) = &self.settings.authorization {
            let value = HeaderValue::from_str(authorization.expose());
            let mut value = value.map_err(|_| {
                "returner.http.authorization cannot be the value of a header".to_owned()
            })?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        request.body(body).map_err(|error| error.to_string())
    }
}

#[async_trait]
impl Destination for Http {
    async fn deliver(&mut self, records: &[Record]) -> Result<(), DeliveryError> {
        let body = json_of(&Value::List(records.iter().map(Record::to_value).collect()));
        let status = self.send(body).await.map_err(DeliveryError::Away)?;
        if status.is_success() {
            return Ok(());
        }
        let why = format!("the server answered {status}");
        Err(match status {
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY => DeliveryError::Refused(why),
            _ => DeliveryError::Away(why),
        })
    }
}

/// Sends a request over a connection of its own, and returns the status of the answer.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<String>,
) -> Result<StatusCode, String> {
    let failed = |error: hyper::Error| format!("the request failed: {error}");
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(failed)?;
    let mut connection = std::pin::pin!(connection);
    let mut answer = std::pin::pin!(sender.send_request(request));
    let answered = tokio::select! {
        biased;
        answered = &mut answer => answered,
        ended = &mut connection => {
            ended.map_err(failed)?;
            // The answer came with the end of the connection, or never comes.
            answer.await
        }
    };
    // What the server says beside its status matters to nobody.
    answered.map(|answer| answer.status()).map_err(failed)
}
