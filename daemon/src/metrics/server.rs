//! Answers those who ask for metrics over HTTP/1.1.
//!
//! An unknown client costs its connection alone: there are few places, a request must arrive soon and be small, and what the
//! metrics are made of is read once a second at most, however many ask.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::prometheus_text;
use saline_config::MetricsAddress;
use saline_protocol::transport::{Clock, Context, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Metrics;
use super::listener::{Connection, MetricsListener};

/// The largest number of connections. Further ones wait in the queue of the system.
const PLACES: usize = 64;

/// How long a client may take to send the head of its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection may take in all.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest head of a request in bytes, and the largest number of its headers.
const MAX_REQUEST: usize = 8 * 1024;
const MAX_HEADERS: usize = 32;

/// How long the text of a scrape is given to others who ask.
const SCRAPE_LIFETIME: Duration = Duration::from_secs(1);

/// The pause after the system has refused to hand over a connection, for example because no descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The daemon whose metrics are asked for.
#[async_trait]
pub trait MetricsSource: Send + Sync + fmt::Debug + 'static {
    /// Returns the metrics of `/metrics`. Does not wait for anything that may take longer than a few seconds.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    async fn metrics(&self) -> Metrics;

    /// Returns the metrics of `/metrics/minions`, which has a value for each minion; none for a daemon without that page.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    async fn minions(&self) -> Option<Metrics> {
        None
    }
}

/// Serves the metrics of `source` at `at`, if that is set, until `context` is cancelled. A daemon whose address cannot be bound
/// goes on without: that nobody watches it must not keep it from its work.
pub fn serve_metrics(
    at: Option<&MetricsAddress>,
    context: &Context,
    source: Arc<dyn MetricsSource>,
) {
    let Some(at) = at else {
        return;
    };
    let listener = match MetricsListener::bind(at) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("metrics are not served: {error}");
            return;
        }
    };
    tracing::info!("metrics are served: {listener}");
    let pages = Arc::new(Pages {
        clock: context.clock,
        source,
        metrics: Page::default(),
        minions: Page::default(),
    });
    context.spawn(accept(listener, pages, context.clone()));
}

async fn accept(listener: MetricsListener, pages: Arc<Pages>, context: Context) {
    let places = Arc::new(Semaphore::new(PLACES));
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok(connection) => {
                context.spawn(serve(connection, Arc::clone(&pages), place));
            }
            Err(error) => {
                tracing::debug!("a request for metrics cannot be accepted: {error}");
                context.clock.pause(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers one request, which has this place.
async fn serve(connection: Box<dyn Connection>, pages: Arc<Pages>, _place: OwnedSemaphorePermit) {
    let clock = pages.clock;
    let answer = service_fn(|request: Request<Incoming>| {
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(pages.answer(request.method(), request.uri().path()).await) }
    });
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_REQUEST)
        .max_headers(MAX_HEADERS)
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .serve_connection(TokioIo::new(connection), answer);
    match clock
        .deadline(clock.after(CONNECTION_TIMEOUT), served)
        .await
    {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("a client that asked for metrics: {error}"),
        Err(_) => tracing::debug!("a client that asked for metrics took too long"),
    }
}

/// The pages of a daemon.
#[derive(Debug)]
struct Pages {
    clock: Clock,
    source: Arc<dyn MetricsSource>,
    metrics: Page,
    minions: Page,
}

/// A page as it was written last.
#[derive(Debug)]
struct Page {
    /// Has one permit, for whoever writes it.
    turn: Semaphore,
    text: Mutex<Option<(Instant, Option<Arc<str>>)>>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            turn: Semaphore::new(1),
            text: Mutex::default(),
        }
    }
}

impl Page {
    /// Returns the page if it was written a moment ago, otherwise `write`s it.
    async fn text(
        &self,
        clock: Clock,
        write: impl Future<Output = Option<Metrics>>,
    ) -> Option<Arc<str>> {
        // The semaphore is never closed.
        let _turn = self.turn.acquire().await.ok()?;
        if let Some((at, text)) = &*self.lock()
            && clock.now() - *at < SCRAPE_LIFETIME
        {
            return text.clone();
        }
        let text = write.await.map(|metrics| Arc::from(metrics.into_text()));
        *self.lock() = Some((clock.now(), text.clone()));
        text
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Option<Arc<str>>)>> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    async fn answer(&self, method: &Method, path: &str) -> Response<String> {
        if ![Method::GET, Method::HEAD].contains(method) {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allowed);
            return refused;
        }
        let text = match path {
            "/metrics" => {
                let write = async { Some(self.source.metrics().await) };
                self.metrics.text(self.clock, write).await
            }
            "/metrics/minions" => {
                let write = self.source.minions();
                self.minions.text(self.clock, write).await
            }
            _ => None,
        };
        match text {
            Some(text) => {
                let mut page = Response::new(text.as_ref().to_owned());
                let format = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);
                page.headers_mut().insert(CONTENT_TYPE, format);
                page
            }
            None => plain(StatusCode::NOT_FOUND, "The metrics are at /metrics.\n"),
        }
    }
}

fn plain(status: StatusCode, line: &str) -> Response<String> {
    let mut response = Response::new(line.to_owned());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests;
