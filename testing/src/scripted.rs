//! The master's side of handshakes and sessions, for a master whose replies a test prescribes.
#![allow(
    clippy::unwrap_used,
    reason = "it is for tests: one that cannot go on says so by panicking"
)]

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use saline_channel::noise::{PendingHandshake, Responder, SplitKeys};
use saline_channel::record::ResponderRecords;
use saline_channel::{Identity, NoiseKey};
use saline_messages::{
    Admission, Extension, GroupKeyMaterial, Header, Kind, PeerVersion, PublicationAddress, Refusal,
    SessionId, Welcome, encode, refusal,
};

/// The sessions of a scripted master.
pub struct Sessions {
    responder: Responder,
    pending: HashMap<SessionId, PendingHandshake>,
    established: HashMap<SessionId, ResponderRecords>,
    made: usize,
}

/// What a message was.
#[derive(Debug)]
pub enum Opened {
    /// A step of a handshake, or a record of no session, with its reply.
    Answered(Bytes),
    /// A handshake that made a session, with its reply.
    Began(SessionId, Bytes),
    /// A request in a session, in plain.
    Request(Header, Vec<u8>),
}

impl Sessions {
    /// Describes a master with these keys that has no session yet.
    pub fn new(identity: Arc<Identity>, noise: NoiseKey) -> Self {
        Self {
            responder: Responder::new(identity, noise, None),
            pending: HashMap::new(),
            established: HashMap::new(),
            made: 0,
        }
    }

    /// Reads a message. `admission` is what the master says of the peer's key at the end of a handshake.
    ///
    /// # Panics
    /// When the message is none that a peer of this version sends.
    pub fn open(&mut self, payload: &[u8], admission: &Admission) -> Opened {
        let (asked, body) = Header::decode(payload).unwrap();
        let mut header = asked;
        match header.kind {
            Kind::First => {
                let (pending, reply) = self.responder.first(body).unwrap();
                header.kind = Kind::FirstReply;
                header.session = SessionId::random().unwrap();
                self.pending.insert(header.session, pending);
                Opened::Answered(header.with_body(&reply))
            }
            Kind::FirstFinish => {
                let Some(pending) = self.pending.remove(&header.session) else {
                    return Opened::Answered(refusal(Some(&asked), Refusal::Handshake));
                };
                let (_, keys) = pending.finish(body).unwrap();
                self.begin(header.session, &keys);
                header.kind = Kind::Record;
                header.counter = 0;
                let reply = self.seal(&header, &encode(admission));
                Opened::Began(header.session, reply)
            }
            // Only who is accepted resumes.
            Kind::Resume if !admission.is_accepted() => {
                Opened::Answered(refusal(Some(&asked), Refusal::Handshake))
            }
            Kind::Resume => {
                let resuming = self.responder.resume(body).unwrap();
                header.kind = Kind::ResumeReply;
                header.session = SessionId::random().unwrap();
                let (reply, keys) = resuming.reply(&encode(admission)).unwrap();
                self.begin(header.session, &keys);
                Opened::Began(header.session, header.with_body(&reply))
            }
            _ => match self.established.get_mut(&header.session) {
                Some(records) => {
                    Opened::Request(asked, records.open_request(&asked, body).unwrap().to_vec())
                }
                None => Opened::Answered(refusal(Some(&asked), Refusal::UnknownSession)),
            },
        }
    }

    fn begin(&mut self, id: SessionId, keys: &SplitKeys) {
        self.established.insert(id, ResponderRecords::new(keys));
        self.made += 1;
    }

    /// Seals the reply to a request.
    ///
    /// # Panics
    /// When its session is forgotten.
    pub fn seal(&self, asked: &Header, reply: &[u8]) -> Bytes {
        self.established[&asked.session].seal_reply(asked, reply)
    }

    /// Returns the keys of a session.
    pub fn records(&self, id: &SessionId) -> Option<&ResponderRecords> {
        self.established.get(id)
    }

    /// Forgets the sessions that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&SessionId) -> bool) {
        self.established.retain(|id, _| keep(id));
    }

    /// Returns how many sessions were made so far.
    pub fn made(&self) -> usize {
        self.made
    }
}

/// Returns the admission of an accepted peer.
pub fn welcome(clock: u64, heartbeat_ms: u64, group: Option<GroupKeyMaterial>) -> Admission {
    Admission::Accepted(Welcome {
        clock,
        heartbeat_ms,
        max_message: 64 << 20,
        publications: PublicationAddress::SameConnection,
        group,
        master: PeerVersion {
            protocol: 1,
            software: "0.1.0".into(),
        },
        // As of a successor: every peer skips it.
        extensions: vec![Extension {
            number: 0x7002,
            bytes: vec![1; 300],
        }],
    })
}
