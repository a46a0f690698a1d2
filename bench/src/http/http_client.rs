//! One connection to the API.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Result;

/// A connection that stays for one request after the other.
pub(super) struct HttpClient {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    /// Ends with the client.
    _connection: JoinSet<()>,
}

impl HttpClient {
    /// Connects to the API at this port.
    pub(super) async fn connect(port: u16) -> Result<Self> {
        let host = format!("127.0.0.1:{port}");
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            // A request that fails tells of it.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            host,
            _connection: task,
        })
    }

    /// Posts JSON, and returns the JSON of the answer.
    pub(super) async fn post(
        &mut self,
        path: &str,
        token: Option<&str>,
        body: &Value,
    ) -> Result<Value> {
        let body = body.to_string().into();
        let response = self.ask(Method::POST, path, token, body).await?;
        let body = response.into_body().collect().await?.to_bytes();
        Ok(serde_json::from_slice(&body)?)
    }

    /// Gets a path, and returns the body as it comes.
    pub(super) async fn get(&mut self, path: &str, token: Option<&str>) -> Result<Incoming> {
        let response = self.ask(Method::GET, path, token, Bytes::new()).await?;
        Ok(response.into_body())
    }

    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        token: Option<&str>,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json");
        let request = match token {
            Some(token) => request.header("X-Auth-Token", token),
            None => request,
        };
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::new(body))?);
        let response = response.await?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let why = String::from_utf8_lossy(&body);
        Err(format!("{path} answers {status}: {why}").into())
    }
}
