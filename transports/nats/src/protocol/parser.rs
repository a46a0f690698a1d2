//! The operations of a server, out of the bytes that arrive.

use bytes::{Buf, Bytes, BytesMut};

use super::MAX_CONTROL_LINE;

/// The longest line of an INFO, which names every server of a cluster.
const MAX_INFO: usize = 64 * 1024;

/// The most bytes of headers that a message may have: a status fits, and Saline sends no others.
const MAX_HEADERS: usize = 4096;

/// The server does not speak NATS's protocol, or not as this client asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the NATS server broke the protocol: {0}")]
pub(crate) struct ProtocolError(pub(crate) &'static str);

/// What a server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `INFO`, with its JSON.
    Info(Bytes),
    /// `MSG` or `HMSG`.
    Message(Message),
    /// `PING`, which is answered with `PONG`.
    Ping,
    /// `PONG`, the answer to a `PING`.
    Pong,
    /// `+OK`.
    Ok,
    /// `-ERR`, with its text without quotes.
    Error(String),
}

/// A message on a subject that was subscribed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) subject: Bytes,
    /// The number of the subscription.
    pub(crate) subscription: u64,
    /// The status in the headers: 503 says that nobody has subscribed to the subject of a publication.
    pub(crate) status: Option<u16>,
    /// The payload; none when it is larger than this client takes.
    pub(crate) payload: Option<Bytes>,
}

/// The reader of operations. It holds no more than one operation and what was read behind it.
#[derive(Debug)]
pub(crate) struct Parser {
    /// What was read and is no operation yet.
    pub(crate) buffer: BytesMut,
    /// The largest payload that is kept.
    largest: usize,
    state: State,
    /// Bytes of `buffer` that hold no end of a line.
    searched: usize,
}

#[derive(Debug)]
enum State {
    /// At the beginning of an operation.
    Line,
    /// Behind the line of a message.
    Payload(Head),
    /// In a payload that is too large, of which so many bytes are left, its end of line among them.
    Skip(Head, usize),
}

/// The line of a message.
#[derive(Debug)]
struct Head {
    subject: Bytes,
    subscription: u64,
    headers: usize,
    total: usize,
}

impl Head {
    fn message(self, status: Option<u16>, payload: Option<Bytes>) -> Operation {
        Operation::Message(Message {
            subject: self.subject,
            subscription: self.subscription,
            status,
            payload,
        })
    }
}

impl Parser {
    /// Returns a parser that keeps payloads of up to `largest` bytes, and passes over larger ones.
    pub(crate) fn new(largest: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            largest,
            state: State::Line,
            searched: 0,
        }
    }

    /// Takes the next operation out of the buffer; none when it is not whole yet.
    ///
    /// # Errors
    /// When the bytes are no operation. Nothing is taken any more then.
    pub(crate) fn next(&mut self) -> Result<Option<Operation>, ProtocolError> {
        loop {
            match std::mem::replace(&mut self.state, State::Line) {
                State::Line => match self.line()? {
                    None => return Ok(None),
                    Some(line) => match operation(&line)? {
                        Line::Operation(operation) => return Ok(Some(operation)),
                        Line::Message(head) if head.total - head.headers > self.largest => {
                            let left = head.total.saturating_add(2);
                            self.state = State::Skip(head, left);
                        }
                        Line::Message(head) => self.state = State::Payload(head),
                    },
                },
                State::Payload(head) => {
                    if self.buffer.len() < head.total + 2 {
                        self.state = State::Payload(head);
                        return Ok(None);
                    }
                    let mut payload = self.buffer.split_to(head.total).freeze();
                    if !self.buffer.starts_with(b"\r\n") {
                        return Err(ProtocolError("a payload has no end"));
                    }
                    self.buffer.advance(2);
                    let headers = payload.split_to(head.headers);
                    return Ok(Some(head.message(status(&headers)?, Some(payload))));
                }
                State::Skip(head, left) => {
                    let passed = left.min(self.buffer.len());
                    self.buffer.advance(passed);
                    if passed < left {
                        self.state = State::Skip(head, left - passed);
                        return Ok(None);
                    }
                    return Ok(Some(head.message(None, None)));
                }
            }
        }
    }

    /// Takes a line, without its end.
    fn line(&mut self) -> Result<Option<Bytes>, ProtocolError> {
        let unsearched = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(end) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            // The return that belongs to the end may be there.
            return match self.searched > longest(&self.buffer) + 1 {
                true => Err(ProtocolError("a line is too long")),
                false => Ok(None),
            };
        };
        let end = self.searched + end;
        self.searched = 0;
        let mut line = self.buffer.split_to(end + 1).freeze();
        if line.len() < 2 || line[end - 1] != b'\r' {
            return Err(ProtocolError("a line has no end"));
        }
        line.truncate(end - 1);
        if line.len() > longest(&line) {
            return Err(ProtocolError("a line is too long"));
        }
        Ok(Some(line))
    }
}

/// A line as it is understood.
enum Line {
    Operation(Operation),
    /// The line of a message, whose payload follows.
    Message(Head),
}

fn is_info(line: &[u8]) -> bool {
    line.get(..5)
        .is_some_and(|verb| verb.eq_ignore_ascii_case(b"INFO "))
}

/// Returns how long a line that begins like this may be.
fn longest(line: &[u8]) -> usize {
    match is_info(line) {
        true => MAX_INFO,
        false => MAX_CONTROL_LINE,
    }
}

fn operation(line: &Bytes) -> Result<Line, ProtocolError> {
    let verb_end = line.iter().position(u8::is_ascii_whitespace);
    let (verb, rest) = line.split_at(verb_end.unwrap_or(line.len()));
    let verb = verb.to_ascii_uppercase();
    let operation = match verb.as_slice() {
        b"MSG" => return head(line, false).map(Line::Message),
        b"HMSG" => return head(line, true).map(Line::Message),
        b"PING" => Operation::Ping,
        b"PONG" => Operation::Pong,
        b"+OK" => Operation::Ok,
        b"INFO" => Operation::Info(line.slice_ref(rest.trim_ascii())),
        b"-ERR" => {
            let text = String::from_utf8_lossy(rest.trim_ascii());
            Operation::Error(text.trim_matches('\'').to_owned())
        }
        _ => return Err(ProtocolError("an operation that there is not")),
    };
    Ok(Line::Operation(operation))
}

/// Reads `MSG subject sid [reply] size`, and `HMSG subject sid [reply] headers size`.
fn head(line: &Bytes, has_headers: bool) -> Result<Head, ProtocolError> {
    const MALFORMED: ProtocolError = ProtocolError("the line of a message is malformed");
    let fields = line.split(|byte| *byte == b' ' || *byte == b'\t');
    let fields: Vec<&[u8]> = fields.filter(|field| !field.is_empty()).collect();
    let sizes = 1 + usize::from(has_headers);
    // Between the subscription and the sizes there may be a reply subject, which Saline has no use for.
    if !(3 + sizes..=4 + sizes).contains(&fields.len()) {
        return Err(MALFORMED);
    }
    let number = |field: &[u8]| {
        let text = str::from_utf8(field).ok();
        text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or(MALFORMED)
    };
    let size = |field| usize::try_from(number(field)?).map_err(|_| MALFORMED);
    let total = size(fields[fields.len() - 1])?;
    let headers = match has_headers {
        true => size(fields[fields.len() - 2])?,
        false => 0,
    };
    if headers > total || headers > MAX_HEADERS {
        return Err(ProtocolError("the headers of a message are too long"));
    }
    Ok(Head {
        subject: line.slice_ref(fields[1]),
        subscription: number(fields[2])?,
        headers,
        total,
    })
}

/// Returns the status in headers: `NATS/1.0 503`, and maybe a description.
fn status(headers: &[u8]) -> Result<Option<u16>, ProtocolError> {
    if headers.is_empty() {
        return Ok(None);
    }
    let Some(rest) = headers.strip_prefix(b"NATS/1.0") else {
        return Err(ProtocolError("the headers of a message are malformed"));
    };
    let line = rest.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let text = str::from_utf8(line.trim_ascii()).unwrap_or_default();
    Ok(text.get(..3).and_then(|status| status.parse().ok()))
}

#[cfg(test)]
mod tests;
