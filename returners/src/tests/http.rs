//! The destination `http`, with a small server.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use saline_data::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::DeliveryError;

/// Reads one request and answers it. Returns its head and its body.
async fn serve_once(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &str,
) -> (String, String) {
    let mut bytes = Vec::new();
    let (head, length) = loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap();
        assert!(count > 0, "the request ended in its head");
        bytes.extend(&part[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            break (head.to_owned(), length.unwrap().parse::<usize>().unwrap());
        }
    };
    let mut body = bytes.split_off(head.len() + 4);
    while body.len() < length {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.unwrap();
        body.extend(&part[..count]);
    }
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    (head, String::from_utf8(body).unwrap())
}

fn posting(
    url: String,
    change: impl FnOnce(&mut saline_config::HttpReturner),
) -> Box<dyn Destination> {
    destination(ReturnerName::Http, |config| {
        config.http.url = url;
        change(&mut config.http);
    })
}

#[tokio::test]
async fn a_server_gets_each_batch_in_one_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut http = posting(format!("http://{address}/in?from=saline"), |_| {});
    let records = batch();
    for (answer, expected) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", Ok(())),
        (
            "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            Err(DeliveryError::Away(
                "the server answered 503 Service Unavailable".to_owned(),
            )),
        ),
        (
            "HTTP/1.1 422 Unprocessable Entity\r\ncontent-length: 0\r\n\r\n",
            Err(DeliveryError::Refused(
                "the server answered 422 Unprocessable Entity".to_owned(),
            )),
        ),
    ] {
        let serving = async {
            let (stream, _) = listener.accept().await.unwrap();
            serve_once(stream, answer).await
        };
        let (delivered, (head, body)) = tokio::join!(http.deliver(&records), serving);
        assert_eq!(delivered, expected);
        assert!(
            head.starts_with("POST /in?from=saline HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(head.contains("content-type: application/json"), "{head}");
        let Value::List(values) = json::read(body.as_bytes()).unwrap() else {
            panic!("{body}");
        };
        assert_eq!(values.len(), records.len());
    }
    // Nobody listens at the port of a client, and nobody else gets it while the client has it.
    let client = TcpStream::connect(address).await.unwrap();
    let closed = client.local_addr().unwrap();
    let mut nobody = posting(format!("http://{closed}/in"), |_| {});
    let failed = nobody.deliver(&records).await.unwrap_err();
    assert!(
        matches!(&failed, DeliveryError::Away(why) if why.contains("cannot connect")),
        "{failed}"
    );
}

#[tokio::test]
async fn a_server_over_tls_must_have_a_certificate_for_its_name() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("ca.pem");
    std::fs::write(&pem, certificate.pem()).unwrap();
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();

    let authorities = pem.clone();
    let mut http = posting(format!("https://localhost:{port}/"), |http| {
        http.authorities = Some(authorities);
        http.authorization = Some(saline_config::Secret::from("Bearer abc"));
    });
    let serving = async {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor.accept(stream).await.unwrap();
        serve_once(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await
    };
    let records = batch();
    let (delivered, (head, _)) = tokio::join!(http.deliver(&records), serving);
    assert_eq!(delivered, Ok(()));
    assert!(head.contains("authorization: Bearer abc"), "{head}");

    let mut elsewhere = posting(format!("https://127.0.0.1:{port}/"), |http| {
        http.authorities = Some(pem);
    });
    let serving = async {
        let (stream, _) = listener.accept().await.unwrap();
        acceptor.accept(stream).await.is_err()
    };
    let (failed, was_refused) = tokio::join!(elsewhere.deliver(&records), serving);
    assert!(
        was_refused && matches!(failed, Err(DeliveryError::Away(_))),
        "{failed:?}"
    );
}
