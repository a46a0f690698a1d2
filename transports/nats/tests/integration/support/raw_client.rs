//! A stranger who has credentials: says to NATS whatever a test wants.

use std::net::SocketAddr;

use saline_protocol::transport::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::TEST_TIMEOUT;

/// A connection to a server of NATS.
pub struct RawClient {
    stream: TcpStream,
    /// What has arrived and was not taken.
    heard: Vec<u8>,
}

impl RawClient {
    /// Connects and logs in.
    pub async fn connect(server: SocketAddr, user: &str, password: &str) -> Self {
        let mut client = Self {
            stream: TcpStream::connect(server).await.unwrap(),
            heard: Vec::new(),
        };
        let login = format!(
            "CONNECT {{\"verbose\":false,\"user\":\"{user}\",\"pass\":\"{password}\",\"protocol\":1}}\r\nPING\r\n"
        );
        client.say(login.as_bytes()).await;
        client.hear("PONG\r\n").await;
        client
    }

    pub async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub async fn subscribe(&mut self, subject: &str) {
        self.say(format!("SUB {subject} 1\r\nPING\r\n").as_bytes())
            .await;
        self.hear("PONG\r\n").await;
    }

    /// Publishes, and waits until the server has taken it; returns what has arrived meanwhile.
    pub async fn publish(&mut self, head: &str, payload: &[u8]) -> String {
        let mut said = publication(head, payload);
        said.extend(b"PING\r\n");
        self.say(&said).await;
        self.hear("PONG\r\n").await
    }

    /// Returns everything up to the first `needle`.
    pub async fn hear(&mut self, needle: &str) -> String {
        let hearing = async {
            loop {
                let text = String::from_utf8_lossy(&self.heard).into_owned();
                let needle = needle.as_bytes();
                let found = self.heard.windows(needle.len()).position(|at| at == needle);
                if let Some(at) = found {
                    let rest = self.heard.split_off(at + needle.len());
                    let heard = std::mem::replace(&mut self.heard, rest);
                    return String::from_utf8_lossy(&heard).into_owned();
                }
                let read = self.stream.read_buf(&mut self.heard).await.unwrap();
                assert_ne!(read, 0, "the server hung up after {text:?}");
            }
        };
        let heard = Clock.deadline(Clock.after(TEST_TIMEOUT), hearing).await;
        heard.unwrap_or_else(|_| panic!("{needle:?} did not come"))
    }

    /// Asks a server for the connection `id`, and returns the subject on which it takes messages.
    pub async fn open(&mut self, user: &str, id: &str) -> String {
        self.subscribe(&format!("saline.down.{user}.{id}")).await;
        self.say(&publication(
            &format!("saline.hello.{user}"),
            &[&[1], id.as_bytes()].concat(),
        ))
        .await;
        // The number of the welcome, its version, the instance, and the epoch.
        self.hear("W\0\0\0\0\0\0\0\0\u{1}").await;
        let instance = loop {
            if let Some(instance) = self.heard.get(..22) {
                break String::from_utf8(instance.to_vec()).unwrap();
            }
            self.stream.read_buf(&mut self.heard).await.unwrap();
        };
        format!("saline.up.{user}.{instance}.{id}")
    }
}

pub fn publication(head: &str, payload: &[u8]) -> Vec<u8> {
    let mut said = format!("PUB {head} {}\r\n", payload.len()).into_bytes();
    said.extend(payload);
    said.extend(b"\r\n");
    said
}

/// A data message of a connection.
pub fn data(number: u64, bytes: &[u8]) -> Vec<u8> {
    [&b"D"[..], &number.to_be_bytes(), bytes].concat()
}
