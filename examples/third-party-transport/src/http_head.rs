//! The head of the HTTP upgrade, which may come in many pieces.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, ReadBuf};

/// The longest head that is put together.
const LONGEST: usize = 8 * 1024;

/// A stream that hands the HTTP head on in one piece: the WebSocket library takes a head that comes in
/// many small ones for an attack, which a slow network is not.
#[derive(Debug)]
pub(crate) struct HeadFirst<R> {
    stream: R,
    /// What was read of the head, and what came behind it.
    head: BytesMut,
    is_complete: bool,
}

impl<R> HeadFirst<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream,
            head: BytesMut::new(),
            is_complete: false,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for HeadFirst<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while !this.is_complete {
            let mut piece = [0; 512];
            let mut piece = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut piece))?;
            // An end that lies across two pieces begins at most three bytes before the second.
            let from = this.head.len().saturating_sub(3);
            this.head.extend_from_slice(piece.filled());
            this.is_complete = piece.filled().is_empty()
                || this.head.len() >= LONGEST
                || this.head[from..].windows(4).any(|end| end == b"\r\n\r\n");
        }
        if this.head.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, into);
        }
        let count = this.head.len().min(into.remaining());
        into.put_slice(&this.head.split_to(count));
        Poll::Ready(Ok(()))
    }
}
