//! The connecting side of handshakes: what a minion or an operator reads of a master, or of somebody in
//! between.

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_channel::noise::PendingHandshake;
use saline_channel::record::ResponderRecords;
use saline_channel::{ChannelError, Established, MasterKeys, MasterTrust, establish};
use saline_messages::{
    Admission, Class, Header, Introduction, Kind, SessionId, decode, encode, is_presentable,
};
use saline_protocol::transport::{
    Client, Clock, Endpoint, Error, ErrorKind, Instant, Result, Subscriber, TopicFilter,
};

use crate::golden::golden;
use crate::hostile_noise::{self, MASTER, vouched_for};
use crate::peers::{MASTER_NOISE, PEERS};

/// What the other end of the link answers.
#[derive(Debug, Clone, Copy)]
enum Master<'a> {
    /// These bytes to everything.
    Raw(&'a [u8]),
    /// A first contact whose reply has this payload.
    Introduces(&'a [u8]),
    /// The same, where the introduction in the payload is vouched for.
    Vouches(&'a [u8]),
    /// An honest handshake; the decision about the key is these bytes.
    Decides(&'a [u8]),
}

/// A link to it.
struct Link<'a> {
    master: Master<'a>,
    half_open: Mutex<Option<PendingHandshake>>,
}

impl std::fmt::Debug for Link<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

const SESSION: SessionId = SessionId([5; 16]);

impl Link<'_> {
    fn answer(&self, request: &[u8]) -> Option<Bytes> {
        let (header, body) = Header::decode(request).expect("an honest minion's request");
        let reply = |kind, body: &[u8]| {
            let header = Header {
                kind,
                session: SESSION,
                ..header
            };
            Some(header.with_body(body))
        };
        let mut half_open = self.half_open.lock().expect("no other thread has it");
        match (self.master, header.kind) {
            (Master::Raw(bytes), _) => Some(Bytes::copy_from_slice(bytes)),
            (Master::Introduces(payload), Kind::First) => {
                reply(Kind::FirstReply, &first_reply(body, payload)?)
            }
            (Master::Vouches(payload), Kind::First) => {
                let peers = &*PEERS;
                let ours = vouched_for(payload, MASTER, &peers.master, &peers.master_noise)?;
                reply(Kind::FirstReply, &first_reply(body, &encode(&ours))?)
            }
            (Master::Decides(_), Kind::First) => {
                let (half, body) = PEERS.responder.first(body).ok()?;
                *half_open = Some(half);
                reply(Kind::FirstReply, &body)
            }
            (Master::Decides(decision), Kind::FirstFinish) => {
                let (_, keys) = half_open.take()?.finish(body).ok()?;
                let header = Header {
                    kind: Kind::Record,
                    ..header
                };
                Some(ResponderRecords::new(&keys).seal_reply(&header, decision))
            }
            (Master::Decides(decision), Kind::Resume) => {
                let resuming = PEERS.responder.resume(body).ok()?;
                let (body, _) = resuming.reply(decision).ok()?;
                reply(Kind::ResumeReply, &body)
            }
            _ => None,
        }
    }
}

/// Returns the second message of XX with this payload.
fn first_reply(first: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
    let mut state = hostile_noise::first_reply(&MASTER_NOISE);
    hostile_noise::read(&mut state, first.get(1..)?);
    hostile_noise::write(&mut state, payload)
}

#[async_trait]
impl Client for Link<'_> {
    async fn request(&self, payload: Bytes, _: Instant) -> Result<Bytes> {
        self.answer(&payload)
            .ok_or_else(|| Error::new(ErrorKind::NoReply, "the master is silent"))
    }

    async fn subscribe(
        &self,
        _: Option<&Endpoint>,
        _: Vec<TopicFilter>,
        _: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        Err(Error::new(ErrorKind::Config, "no handshake subscribes"))
    }

    async fn shutdown(&self, _: Duration) -> Result<()> {
        Ok(())
    }
}

fn connect(
    master: Master<'_>,
    trust: &MasterTrust,
) -> std::result::Result<Established, ChannelError> {
    let link = Link {
        master,
        half_open: Mutex::new(None),
    };
    // It leaves no time for a master that is busy: whoever waits for one needs a runtime.
    let deadline = Clock.now();
    let session = pin!(establish(&link, &PEERS.minion, trust, deadline));
    match session.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("a link that answers at once leaves nothing to wait for"),
    }
}

/// The first byte says what the master makes of the others.
pub(crate) fn initiator(bytes: &[u8]) {
    let Some((mode, rest)) = bytes.split_first() else {
        return;
    };
    let known = MasterKeys::of(PEERS.master_identity(), &PEERS.master_noise);
    let first = MasterTrust::FirstUse { finger: None };
    let pinned = MasterTrust::Pinned(known.clone());
    match mode % 6 {
        0 => assert!(connect(Master::Raw(rest), &first).is_err()),
        1 => assert!(connect(Master::Raw(rest), &pinned).is_err()),
        2 => assert!(connect(Master::Introduces(rest), &first).is_err()),
        3 => vouches(rest, &first),
        4 => decides(rest, &first, &known),
        _ => decides(rest, &pinned, &known),
    }
}

/// A master that holds its identity is believed, and then says nothing.
fn vouches(payload: &[u8], trust: &MasterTrust) {
    let outcome = connect(Master::Vouches(payload), trust);
    let said = decode::<Introduction>(payload);
    let is_shown = said.is_ok_and(|said| is_presentable(&said.software));
    match outcome {
        Err(ChannelError::Transport(_)) => {}
        Err(error) => assert!(!is_shown, "{error}"),
        Ok(_) => panic!("nothing was decided"),
    }
}

fn decides(decision: &[u8], trust: &MasterTrust, known: &MasterKeys) {
    let Ok(established) = connect(Master::Decides(decision), trust) else {
        return;
    };
    assert_eq!(&established.master, known);
    assert_eq!(established.session.id(), SESSION);
    let decision: Admission = decode(decision).expect("what was accepted is a decision");
    assert_eq!(established.answer, decision);
    match established.answer {
        Admission::Accepted(welcome) => {
            let versions = PEERS.minion.versions;
            let common = versions.lowest..=versions.highest;
            assert!(common.contains(&welcome.master.protocol));
            assert!(is_presentable(&welcome.master.software));
        }
        Admission::NoCommonVersion { software, .. } => assert!(is_presentable(&software)),
        _ => {}
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for introduction in golden(&["Introduction"]) {
        for mode in [2, 3] {
            seeds.push([&[mode], &introduction[..]].concat());
        }
    }
    let decisions = [
        "Accepted", "Pending", "Rejected", "Denied", "Full", "NoCommon",
    ];
    for (index, decision) in golden(&decisions).iter().enumerate() {
        let mode = 4 + index as u8 % 2;
        seeds.push([&[mode], &decision[..]].concat());
    }
    for (index, kind) in [
        Kind::FirstReply,
        Kind::ResumeReply,
        Kind::Refused,
        Kind::Busy,
    ]
    .into_iter()
    .enumerate()
    {
        let message = Header::bare(kind, Class::First).with_body(&[4; 100]);
        seeds.push([&[index as u8 % 2], &message[..]].concat());
    }
    seeds
}
