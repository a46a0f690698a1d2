//! Tests of the parser: examples, and properties for whatever a server may say, in whatever pieces it arrives.

use proptest::prelude::*;

use super::*;

const LARGEST: usize = 64;

/// Reads `bytes` in pieces that end at `cuts`.
fn read(bytes: &[u8], cuts: &[usize]) -> Result<Vec<Operation>, ProtocolError> {
    let mut parser = Parser::new(LARGEST);
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    cuts.push(bytes.len());
    cuts.sort_unstable();
    let (mut begin, mut read) = (0, Vec::new());
    for end in cuts {
        parser.buffer.extend_from_slice(&bytes[begin..end]);
        begin = end;
        while let Some(operation) = parser.next()? {
            read.push(operation);
        }
        assert!(parser.buffer.len() <= MAX_INFO + 2);
    }
    Ok(read)
}

fn message(subject: &'static str, subscription: u64, payload: Option<&'static str>) -> Operation {
    Operation::Message(Message {
        subject: subject.into(),
        subscription,
        status: None,
        payload: payload.map(Bytes::from),
    })
}

#[test]
fn what_a_server_says_is_read() {
    let said = b"INFO {\"a\":1} \r\nMSG a.b 9 3\r\nx\r\n\r\nMSG a 1 reply.to 0\r\n\r\nPING\r\nPONG\r\n+OK\r\n-ERR 'Stale Connection'\r\n";
    let expected = [
        Operation::Info("{\"a\":1}".into()),
        message("a.b", 9, Some("x\r\n")),
        message("a", 1, Some("")),
        Operation::Ping,
        Operation::Pong,
        Operation::Ok,
        Operation::Error("Stale Connection".to_owned()),
    ];
    assert_eq!(read(said, &[]).unwrap(), expected);
}

#[test]
fn a_status_is_read() {
    let said = b"HMSG down 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\nHMSG down 1 r 30 32\r\nNATS/1.0 404 Nothing\r\nA: b\r\n\r\nhi\r\n";
    let read = read(said, &[]).unwrap();
    let [Operation::Message(first), Operation::Message(second)] = read.as_slice() else {
        panic!("{read:?}");
    };
    assert_eq!(
        (first.status, first.payload.as_deref()),
        (Some(503), Some(&b""[..]))
    );
    assert_eq!(
        (second.status, second.payload.as_deref()),
        (Some(404), Some(&b"hi"[..]))
    );
}

#[test]
fn a_payload_that_is_too_large_is_passed_over() {
    let mut said = b"MSG a 1 1000\r\n".to_vec();
    said.extend([b'x'; 1000]);
    said.extend(b"\r\nPING\r\n");
    let expected = [message("a", 1, None), Operation::Ping];
    assert_eq!(read(&said, &[100, 500]).unwrap(), expected);
}

#[test]
fn an_announced_size_costs_nothing() {
    let mut parser = Parser::new(LARGEST);
    parser
        .buffer
        .extend_from_slice(b"MSG a 1 18446744073709551615\r\n");
    assert_eq!(parser.next(), Ok(None));
    for _ in 0..1000 {
        parser.buffer.extend_from_slice(&[b'x'; 1000]);
        assert_eq!(parser.next(), Ok(None));
        assert!(parser.buffer.is_empty());
    }
}

#[test]
fn what_is_no_operation_is_refused() {
    for said in [
        "HELLO\r\n",
        "\r\n",
        "PING\n",
        "MSG a 1\r\n",
        "MSG a x 1\r\n",
        "MSG a 1 b c 1\r\n",
        "MSG a 1 +1\r\n",
        "MSG a 1 99999999999999999999\r\n",
        "MSG a 1 1\r\nxyz\r\n",
        "HMSG a 1 5 4\r\nabcd\r\n",
        "HMSG a 1 4 4\r\nabcd\r\n",
        "HTTP/1.1 400 Bad Request\r\n",
    ] {
        assert!(read(said.as_bytes(), &[]).is_err(), "{said:?}");
    }
}

#[test]
fn lines_have_a_bound() {
    let endless = vec![b'x'; MAX_CONTROL_LINE + 2];
    assert!(read(&endless, &[]).is_err());
    let info = format!("INFO {}\r\n", "x".repeat(3 * MAX_CONTROL_LINE));
    assert_eq!(read(info.as_bytes(), &[]).unwrap().len(), 1);
    let info = format!("INFO {}\r\n", "x".repeat(MAX_INFO));
    assert!(read(info.as_bytes(), &[]).is_err());
    assert!(read(info.as_bytes(), &[info.len() - 2]).is_err());
    let error = format!("-ERR {}\r\n", "x".repeat(MAX_CONTROL_LINE));
    assert!(read(error.as_bytes(), &[]).is_err());
}

fn said() -> impl Strategy<Value = (Vec<u8>, Operation)> {
    let payload = prop::collection::vec(any::<u8>(), 0..100);
    let message = (
        "[a-z]{1,5}(\\.[A-Z0-9_-]{1,5}){0,3}",
        any::<u64>(),
        "( r\\.[a-z]{1,3})?",
        payload,
    )
        .prop_map(|(subject, subscription, reply, payload)| {
            let mut said = format!("MSG {subject} {subscription}{reply} {}\r\n", payload.len());
            // No UTF-8 in what the line says, so the text may be grown by bytes.
            let mut said = std::mem::take(&mut said).into_bytes();
            said.extend(&payload);
            said.extend(b"\r\n");
            let payload = (payload.len() <= LARGEST).then(|| payload.into());
            let message = Message {
                subject: subject.into(),
                subscription,
                status: None,
                payload,
            };
            (said, Operation::Message(message))
        });
    let fixed = |said: &'static [u8], operation: Operation| Just((said.to_vec(), operation));
    prop_oneof![
        3 => message,
        1 => fixed(b"PING\r\n", Operation::Ping),
        1 => fixed(b"pong\r\n", Operation::Pong),
        1 => fixed(b"+OK\r\n", Operation::Ok),
        1 => fixed(b"INFO {}\r\n", Operation::Info("{}".into())),
        1 => fixed(b"-ERR 'No'\r\n", Operation::Error("No".to_owned())),
    ]
}

proptest! {
    #[test]
    fn pieces_mean_nothing(
        said in prop::collection::vec(said(), 0..20),
        cuts in prop::collection::vec(any::<usize>(), 0..20),
    ) {
        let (bytes, operations): (Vec<_>, Vec<_>) = said.into_iter().unzip();
        prop_assert_eq!(read(&bytes.concat(), &cuts), Ok(operations));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        cuts in prop::collection::vec(any::<usize>(), 0..5),
    ) {
        // An error is no piece's: it comes whatever the pieces are.
        prop_assert_eq!(read(&bytes, &cuts), read(&bytes, &[]));
    }

    #[test]
    fn a_line_that_is_nearly_right_is_read_or_refused(line in "(MSG|HMSG|INFO|-ERR) ?[ -~]{0,40}\r\n[ -~\r\n]{0,40}") {
        let _ = read(line.as_bytes(), &[3, 11]);
    }
}
