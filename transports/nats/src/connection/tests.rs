//! Both ends of a connection without a server between them.

use std::task::Waker;

use proptest::prelude::*;

use super::*;
use crate::message::Announcement;

const ID: &str = "abcdefghijklmnopqr-_AZ";

/// The two ends, each over a link of its own that nobody reads but the test.
struct Ends {
    server: Arc<Connection>,
    client: Arc<Connection>,
}

/// Returns the payloads of the publications among what was said.
fn publications(mut said: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    while !said.is_empty() {
        let end = said.windows(2).position(|end| end == b"\r\n").unwrap();
        let line = str::from_utf8(&said[..end]).unwrap();
        said = &said[end + 2..];
        if let Some(publication) = line.strip_prefix("PUB ") {
            let size: usize = publication.rsplit(' ').next().unwrap().parse().unwrap();
            payloads.push(said[..size].to_vec());
            said = &said[size + 2..];
        }
    }
    payloads
}

impl Ends {
    /// Returns the ends of a connection that is not open yet.
    fn asked() -> Self {
        let subjects = Subjects::parse("s").unwrap();
        let side = Side::Client(ClientSide::new(&subjects, "u", ID));
        let server = Side::Server(subjects.down("u", ID));
        Self {
            client: Connection::new(&Link::without_task(), side),
            server: Connection::new(&Link::without_task(), server),
        }
    }

    fn open() -> Self {
        let ends = Self::asked();
        ends.server.welcome(
            Announcement {
                instance: ID,
                epoch: 1,
            },
            "up",
        );
        ends.carry();
        ends
    }

    /// Carries what was said, both ways. Returns whether that was anything.
    fn carry(&self) -> bool {
        let mut carried = false;
        for (from, to) in [(&self.server, &self.client), (&self.client, &self.server)] {
            for payload in publications(&from.link.take_said()) {
                let _ = to.take(Some(&payload));
                carried = true;
            }
        }
        carried
    }
}

fn write(end: &Connection, bytes: &[u8]) -> Poll<io::Result<usize>> {
    let mut cx = Context::from_waker(Waker::noop());
    end.poll_write(&mut cx, &[IoSlice::new(bytes)])
}

fn read(end: &Connection, most: usize) -> Poll<io::Result<Vec<u8>>> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut bytes = vec![0; most];
    let mut into = ReadBuf::new(&mut bytes);
    let read = end.poll_read(&mut cx, &mut into);
    read.map_ok(|()| into.filled().to_vec())
}

/// Reads until there is nothing, and returns why nothing follows.
fn why(end: &Connection) -> (io::ErrorKind, String) {
    loop {
        match read(end, 1 << 20) {
            Poll::Ready(Ok(bytes)) => assert!(!bytes.is_empty(), "an orderly end"),
            Poll::Ready(Err(error)) => return (error.kind(), error.to_string()),
            Poll::Pending => panic!("it goes on"),
        }
    }
}

fn numbered(number: u64, content: Content<'_>) -> Vec<u8> {
    Numbered { number, content }.encode()
}

#[test]
fn silence_says_nothing_while_the_window_is_full() {
    let ends = Ends::open();
    let look = || (ends.server.signs_of_life(), ends.server.signs_of_life());
    let (before, then) = look();
    assert_eq!(before, then, "nothing has come");
    assert!(write(&ends.client, b"x").is_ready());
    ends.carry();
    let (after, then) = look();
    assert!(after != before && after == then, "one message has come");
    while write(&ends.client, &[0; 1000]).is_ready() {
        ends.carry();
    }
    let (full, then) = look();
    assert_ne!(full, then, "it can say nothing");
    assert!(read(&ends.server, 1 << 20).is_ready());
    let (read, then) = look();
    assert_eq!(read, then, "it has room again");
}

#[test]
fn a_client_publishes_where_the_server_says() {
    let ends = Ends::open();
    assert_eq!(
        ends.client.head(),
        format!("s.up.u.{ID}.{ID} s.down.u.{ID}")
    );
    assert!(matches!(write(&ends.client, b"abc"), Poll::Ready(Ok(3))));
    assert!(ends.carry());
    assert!(matches!(read(&ends.server, 9), Poll::Ready(Ok(bytes)) if bytes == b"abc"));
}

#[test]
fn a_welcome_that_is_repeated_counts_once() {
    let ends = Ends::open();
    ends.server.welcome(
        Announcement {
            instance: ID,
            epoch: 1,
        },
        "up",
    );
    assert!(matches!(write(&ends.server, b"abc"), Poll::Ready(Ok(3))));
    ends.carry();
    assert!(matches!(read(&ends.client, 9), Poll::Ready(Ok(bytes)) if bytes == b"abc"));
}

#[test]
fn an_end_is_read_behind_everything() {
    let ends = Ends::open();
    assert!(matches!(write(&ends.server, b"abc"), Poll::Ready(Ok(3))));
    ends.server.finish();
    ends.carry();
    assert!(matches!(read(&ends.client, 9), Poll::Ready(Ok(bytes)) if bytes == b"abc"));
    assert!(matches!(read(&ends.client, 9), Poll::Ready(Ok(bytes)) if bytes.is_empty()));
}

#[test]
fn who_writes_beyond_the_window_is_refused() {
    let ends = Ends::open();
    let full = vec![7; 16 * 1024];
    assert!(
        ends.server
            .take(Some(&numbered(0, Content::Data(&full))))
            .is_none()
    );
    assert!(matches!(read(&ends.server, 1), Poll::Ready(Ok(_))));
    let one = numbered(1, Content::Data(b"1"));
    let two = numbered(2, Content::Data(b"2"));
    // The byte that was read made room for none: a credit says when.
    assert!(ends.server.take(Some(&one)).is_none());
    assert!(ends.server.take(Some(&two)).is_none());
    let (kind, why) = why(&ends.server);
    assert_eq!(kind, io::ErrorKind::InvalidData);
    assert!(why.contains("window"), "{why}");
}

#[test]
fn numbers_are_neither_repeated_nor_skipped() {
    for number in [0, 2, u64::MAX] {
        let ends = Ends::open();
        let _ = ends.server.take(Some(&numbered(0, Content::Data(b"a"))));
        let _ = ends
            .server
            .take(Some(&numbered(number, Content::Data(b"b"))));
        let (kind, why) = why(&ends.server);
        assert_eq!(kind, io::ErrorKind::InvalidData);
        assert!(why.contains("repeated or lost"), "{why}");
    }
}

#[test]
fn what_means_nothing_ends_a_connection() {
    let announcement = Announcement {
        instance: ID,
        epoch: 1,
    };
    for content in [
        Content::Welcome(announcement),
        Content::Refused(String::new()),
        Content::Credit(0),
        Content::Credit(u64::MAX),
    ] {
        let ends = Ends::open();
        let _ = ends.server.take(Some(&numbered(0, content.clone())));
        assert_eq!(
            why(&ends.server).0,
            io::ErrorKind::InvalidData,
            "{content:?}"
        );
    }
    for payload in [None, Some(&b""[..]), Some(b"??")] {
        let ends = Ends::open();
        let _ = ends.server.take(payload);
        assert_eq!(why(&ends.server).0, io::ErrorKind::InvalidData);
    }
    let ends = Ends::open();
    let _ = ends.server.take(Some(&numbered(0, Content::End)));
    let _ = ends.server.take(Some(&numbered(1, Content::Data(b"a"))));
    assert!(matches!(write(&ends.server, b"a"), Poll::Ready(Err(_))));
}

#[test]
fn a_refusal_says_why() {
    let ends = Ends::asked();
    let refused = Content::Refused("the server stops".to_owned());
    let _ = ends.client.take(Some(&numbered(0, refused)));
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Err(error)) = ends.client.poll_open(&mut cx) else {
        panic!("not refused");
    };
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(error.to_string(), "the server stops");
}

#[test]
fn a_peer_that_does_not_know_of_the_end_is_told() {
    let ends = Ends::open();
    ends.server.hang_up();
    ends.carry();
    assert_eq!(why(&ends.client).0, io::ErrorKind::ConnectionReset);
    ends.client.hang_up();
    assert!(ends.client.link.take_said().is_empty());
}

proptest! {
    /// Whatever is written in whatever pieces is read, in order, both ways at once, and neither side ever breaks a rule.
    #[test]
    fn what_is_written_is_read(
        steps in prop::collection::vec((any::<bool>(), 1_usize..80_000, 1_usize..80_000), 1..60),
    ) {
        let ends = Ends::open();
        let sides = [(&ends.server, &ends.client), (&ends.client, &ends.server)];
        let byte = |at: usize| (at % 251) as u8;
        let (mut written, mut arrived) = ([0, 0], [0, 0]);
        let check = |side: usize, bytes: Vec<u8>, arrived: &mut [usize; 2]| {
            for read in bytes {
                assert_eq!(read, byte(arrived[side]));
                arrived[side] += 1;
            }
        };
        for (side, size, most) in steps {
            let side = usize::from(side);
            let (from, to) = sides[side];
            let bytes: Vec<u8> = (written[side]..written[side] + size).map(byte).collect();
            if let Poll::Ready(wrote) = write(from, &bytes) {
                written[side] += wrote.unwrap();
            }
            ends.carry();
            if let Poll::Ready(read) = read(to, most) {
                check(side, read.unwrap(), &mut arrived);
            }
            prop_assert!(written[side] - arrived[side] <= WINDOW as usize);
        }
        for side in [0, 1] {
            let (from, to) = sides[side];
            from.finish();
            loop {
                ends.carry();
                match read(to, 10_000) {
                    Poll::Ready(read) => {
                        let read = read.unwrap();
                        if read.is_empty() {
                            break;
                        }
                        check(side, read, &mut arrived);
                    }
                    Poll::Pending => prop_assert!(false, "it stands still"),
                }
            }
        }
        prop_assert_eq!(arrived, written);
    }
}
