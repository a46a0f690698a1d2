use std::time::Duration;

use bytes::Bytes;
use saline_protocol::transport::{Clock, Limits};

use super::*;
use crate::server::tests::Bare;
use crate::state::BATCH;

/// A connection, and what its writer works with.
struct Written {
    connection: Arc<Connection>,
    buffer: SendBuffer,
    drained: Drained,
}

impl Written {
    fn new() -> Self {
        Self {
            connection: Bare::new(Limits::default()).connect(1),
            buffer: SendBuffer::default(),
            drained: Drained::default(),
        }
    }

    fn answer(&self, payload: &Bytes) {
        let connection = &self.connection;
        connection.core.requests.reserve(1, 1, false);
        connection.expect_answers(1);
        let token = ReplyToken {
            connection: 1,
            request: 1,
        };
        connection.answer(token, Answer::Reply(payload.clone()));
    }

    /// Takes everything out, until the writer waits.
    fn drain(&mut self) {
        let mut next = Next::Write;
        while next == Next::Write {
            self.buffer = SendBuffer::default();
            next = self.connection.drain(&mut self.buffer, &mut self.drained);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_reader_waits_while_too_much_is_owed() {
    let mut written = Written::new();
    let connection = Arc::clone(&written.connection);
    assert!(!connection.room().await);
    written.answer(&Bytes::from(vec![0; 2 * 1024 * 1024]));
    let begin = Clock.now();
    let writing = async {
        Clock.pause(Duration::from_secs(1)).await;
        written.drain();
    };
    let (has_waited, ()) = tokio::join!(connection.room(), writing);
    assert!(has_waited);
    assert_eq!((Clock.now() - begin).as_secs(), 1);
    assert!(!connection.room().await);
}

/// The writer gives those who queue more their turns for as long as this grows.
#[tokio::test(start_paused = true)]
async fn what_is_gathered_grows_until_a_batch_has_come_together() {
    let mut written = Written::new();
    let payload = Bytes::from_static(b"payload");
    assert_eq!(written.connection.gathered(), None);
    written.drain();
    assert_eq!(written.connection.gathered(), None);
    let mut before = 0;
    for _ in 1..BATCH {
        written.answer(&payload);
        let gathered = written.connection.gathered().unwrap();
        assert!(gathered >= before + payload.len());
        before = gathered;
    }
    written.answer(&payload);
    assert_eq!(written.connection.gathered(), None);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_keeps_no_memory() {
    let mut written = Written::new();
    for _ in 0..1000 {
        written.answer(&Bytes::new());
    }
    written.drain();
    assert!(written.connection.queue().capacity() >= 1000);
    written.connection.rest();
    assert_eq!(written.connection.queue().capacity(), 0);
}
