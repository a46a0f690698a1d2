//! What a server of NATS says, and the messages of virtual connections over it.

use saline_nats::fuzzing;

/// What an operation may hold besides a payload: the line of an INFO and its end.
const MAX_HELD: usize = 64 * 1024 + 2;

/// The first byte says how many bytes arrive at once.
pub(crate) fn operations(bytes: &[u8]) {
    let Some((piece, bytes)) = bytes.split_first() else {
        return;
    };
    let (all, _) = fuzzing::operations(bytes, usize::MAX);
    let piece = usize::from(*piece) + 1;
    let (in_pieces, held) = fuzzing::operations(bytes, piece);
    assert_eq!(all, in_pieces, "pieces make a difference");
    assert!(held <= MAX_HELD + piece, "{held} bytes are held");
}

pub(crate) fn operation_seeds() -> Vec<Vec<u8>> {
    let said: [&[u8]; 6] = [
        b"INFO {\"server_id\":\"N\",\"version\":\"2.9.10\",\"headers\":true,\"max_payload\":1048576} \r\n",
        b"MSG saline.up.u.i.c 2 12\r\nD\x00\x00\x00\x00\x00\x00\x00\x00abc\r\nPING\r\nPONG\r\n+OK\r\n",
        b"HMSG saline.down.u.c 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n",
        b"MSG saline.hello.u 1 saline.down.u.c 0\r\n\r\n",
        b"MSG a 1 18446744073709551615\r\nxxxx",
        b"-ERR 'Permissions Violation for Publish to \"saline.up.u.i.c\"'\r\n",
    ];
    let in_pieces = |said: &[u8]| [&[6][..], said].concat();
    said.into_iter().map(in_pieces).collect()
}

pub(crate) fn messages(bytes: &[u8]) {
    fuzzing::messages(bytes);
}

pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    let name = b"abcdefghijklmnopqr-_AZ";
    let numbered = |kind: u8, rest: &[u8]| [&[kind, 0, 0, 0, 0, 0, 0, 0, 7][..], rest].concat();
    let epoch = 3_u64.to_be_bytes();
    vec![
        numbered(b'W', &[&[1], &name[..], &epoch].concat()),
        numbered(b'R', b"the server stops"),
        numbered(b'D', b"bytes"),
        numbered(b'C', &65_536_u64.to_be_bytes()),
        numbered(b'E', b""),
        numbered(b'X', b""),
        [&[1], &name[..]].concat(),
        [&[2], &name[..], b"later"].concat(),
        [&[1], &name[..], &epoch].concat(),
    ]
}
