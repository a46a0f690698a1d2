use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use saline_protocol::transport::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::*;

/// Counts how often it is read.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

#[async_trait]
impl MetricsSource for Counting {
    async fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        let reads = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        metrics.counter("reads", "How often this was read.", reads);
        metrics
    }
}

/// A server on a Unix socket in a folder of its own, with its source.
struct Served {
    context: Context,
    source: Arc<Counting>,
    folder: tempfile::TempDir,
}

impl Served {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let context = Context::new(Limits::default());
        let source = Arc::new(Counting::default());
        let at = MetricsAddress::Local(folder.path().join("m.sock"));
        serve_metrics(Some(&at), &context, Arc::clone(&source) as _);
        Self {
            context,
            source,
            folder,
        }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.path().join("m.sock"))
            .await
            .unwrap()
    }

    /// Sends bytes, and returns what comes back until the server closes the connection.
    async fn send(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // A server that has refused the first bytes may have closed the connection before the last.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn end(self) {
        self.context.cancel.cancel();
        self.context.tracker.close();
        self.context.tracker.wait().await;
        assert!(!self.folder.path().join("m.sock").exists());
    }
}

#[tokio::test]
async fn a_page_is_answered_in_the_format_of_prometheus() {
    let served = Served::start();
    let answer = served
        .send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4"),
        "{answer}"
    );
    assert!(answer.ends_with("reads_total 1.0\n"), "{answer}");
    let answer = served
        .send(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
    for (request, status) in [
        ("GET /", "404"),
        ("GET /metrics/minions", "404"),
        ("GET /metrics/../etc/passwd", "404"),
        ("POST /metrics", "405"),
        ("GET  /metrics", "400"),
    ] {
        let answer = served
            .send(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
            .await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
    }
    served.end().await;
}

#[tokio::test]
async fn however_many_ask_the_daemon_is_read_once_a_second() {
    let served = Served::start();
    let mut answers = tokio::task::JoinSet::new();
    let path = served.folder.path().join("m.sock");
    let began = Clock.now();
    for _ in 0..200 {
        let path = path.clone();
        answers.spawn(async move {
            let mut stream = UnixStream::connect(path).await.unwrap();
            stream
                .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
                .await
                .unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        });
    }
    while let Some(answer) = answers.join_next().await {
        let answer = answer.unwrap();
        assert!(answer.contains("reads_total "), "{answer}");
    }
    let reads = served.source.0.load(Ordering::Relaxed);
    assert!(reads <= 1 + (Clock.now() - began).as_secs(), "{reads}");
    served.end().await;
}

#[tokio::test]
async fn clients_that_send_nothing_hold_their_places_for_seconds_only() {
    let served = Served::start();
    let mut silent = Vec::new();
    for _ in 0..2 * PLACES {
        silent.push(served.connect().await);
    }
    // The queue of the system holds this one until places are free.
    let answer = served
        .send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let mut first = silent.swap_remove(0);
    let mut rest = String::new();
    // The server has closed the connection.
    let _ = first.read_to_string(&mut rest).await;
    assert!(!rest.contains("200"), "{rest}");
    served.end().await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let served = Served::start();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(64 * 1024));
    assert!(!served.send(long.as_bytes()).await.contains("200 OK"));
    let many = format!(
        "GET /metrics HTTP/1.1\r\n{}\r\n",
        "a: b\r\n".repeat(MAX_HEADERS + 1)
    );
    assert!(!served.send(many.as_bytes()).await.contains("200 OK"));
    served.end().await;
}

#[tokio::test]
async fn an_address_in_use_leaves_the_daemon_without_metrics() {
    let served = Served::start();
    let context = Context::new(Limits::default());
    let at = MetricsAddress::Local(served.folder.path().join("m.sock"));
    serve_metrics(Some(&at), &context, Arc::new(Counting::default()));
    assert_eq!(context.tracker.len(), 0);
    // The one that listened first still does.
    let answer = served
        .send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .await;
    assert!(answer.contains("200 OK"), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn metrics_are_served_over_tcp_too() {
    let listener = MetricsListener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
    let MetricsListener::Tcp(_, address) = &listener else {
        panic!("{listener}");
    };
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut accepted = listener.accept().await.unwrap();
    stream.write_all(b"x").await.unwrap();
    assert_eq!(accepted.read_u8().await.unwrap(), b'x');
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_of_a_client_end_the_server(
        garbage in proptest::collection::vec(any::<u8>(), 0..512),
        begins_well in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let served = Served::start();
            let mut bytes = match begins_well {
                true => b"GET /metrics HTTP/1.1\r\n".to_vec(),
                false => Vec::new(),
            };
            bytes.extend(garbage);
            let mut hostile = served.connect().await;
            // The server may have closed the connection already.
            let _ = hostile.write_all(&bytes).await;
            drop(hostile);
            let answer = served.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert!(answer.contains("200 OK"), "{answer}");
            served.end().await;
        });
    }
}
