//! The connecting side of a session: makes it, and sends requests in it.
//!
//! Messages in the clear are hints. The delay of a `Busy` is capped, and a minion whose request was refused in the
//! clear asks in the session whether the session stands before it makes another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::noise::{FirstContact, InitiatorKeys, MetMaster, Resumption, SplitKeys};
use super::noise_key::now;
use super::record::InitiatorRecords;
use super::{
    ChannelError, Identity, MasterKeys, MasterTrust, NoiseKey, PublicIdentity, PublicationOpener,
    Token,
};
use saline_messages::{
    Admission, Class, GroupKeyMaterial, HEADER_LEN, Header, Kind, MinionId, PeerVersion,
    ProtocolVersions, Refusal, Role, SessionId, decode, encode, is_presentable,
};
use saline_protocol::transport::{Client, Clock, Instant, jitter};

/// The longest delay that a master may ask for in the clear. Whoever forges a [`Kind::Busy`] gains no more.
pub const MAX_BUSY_DELAY: Duration = Duration::from_secs(10);

/// The shortest delay after a [`Kind::Busy`] in the clear. A forged one of no time does not make peers flood their
/// master.
pub const MIN_BUSY_DELAY: Duration = Duration::from_millis(100);

/// The role, the name and the keys of a connecting peer.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The peer's role.
    pub role: Role,
    /// A minion's id or an operator's name.
    pub id: String,
    /// The peer's identity.
    pub identity: Arc<Identity>,
    /// The peer's Noise key.
    pub noise: NoiseKey,
    /// The protocol versions that the peer speaks: [`ProtocolVersions::OURS`], but in tests.
    pub versions: ProtocolVersions,
}

impl Credentials {
    fn keys(&self, certificate: Option<[u8; 32]>) -> InitiatorKeys<'_> {
        InitiatorKeys {
            role: self.role,
            id: &self.id,
            identity: &self.identity,
            noise: &self.noise,
            certificate,
            versions: self.versions,
            attempted: now(),
        }
    }
}

/// A session that a handshake has made, accepted or not.
#[derive(Debug)]
pub struct Established {
    /// The session.
    pub session: Session,
    /// The master's decision about the peer's key.
    pub answer: Admission,
    /// The master's keys, to be pinned at the first contact.
    pub master: MasterKeys,
}

/// Makes a session: in one round trip (IK) when the master's Noise key is known, otherwise, or when
/// the master has a new one, in two (XX). A master that is busy is asked again, for as long as the deadline
/// leaves time for it.
///
/// # Errors
/// `WrongMaster` when the master that answers is not the trusted one; `Refused` and `Busy` as the
/// master says; `Transport` when the transport failed.
///
/// # Cancel safety
/// A dropped future leaves no session; the master forgets the unfinished handshake within seconds.
pub async fn establish(
    client: &dyn Client,
    credentials: &Credentials,
    trust: &MasterTrust,
    deadline: Instant,
) -> Result<Established, ChannelError> {
    establish_with_token(client, credentials, trust, None, deadline).await
}

/// As [`establish`]. A first contact with the master that made the token, or with one that took its place, brings the token;
/// no other master gets it, whatever `trust` says. A master that knows the peer already needs none, and gets none in one round
/// trip.
///
/// # Errors
/// As [`establish`].
///
/// # Cancel safety
/// As [`establish`]; the master may have accepted the peer by the token.
pub async fn establish_with_token(
    client: &dyn Client,
    credentials: &Credentials,
    trust: &MasterTrust,
    token: Option<&Token>,
    deadline: Instant,
) -> Result<Established, ChannelError> {
    if let MasterTrust::Pinned(
        known @ MasterKeys {
            noise: Some(noise), ..
        },
    ) = trust
    {
        match resume(client, credentials, known, noise, deadline).await {
            // Its Noise key is another now, or this machine's clock was set back: in full it shows whether it
            // is the same master, and nothing is taken for a replay.
            Err(ChannelError::Refused(
                Refusal::Handshake | Refusal::Malformed | Refusal::Replayed,
            )) => {}
            other => return other,
        }
    }
    first_contact(client, credentials, trust, token, deadline).await
}

async fn first_contact(
    client: &dyn Client,
    credentials: &Credentials,
    trust: &MasterTrust,
    token: Option<&Token>,
    deadline: Instant,
) -> Result<Established, ChannelError> {
    let keys = credentials.keys(client.peer_certificate());
    let (contact, body) = FirstContact::begin(keys)?;
    let first = Header::bare(Kind::First, Class::First);
    let reply = client.request(first.with_body(&body), deadline).await?;
    let (mut header, body) = expect(&reply, Kind::FirstReply)?;
    let (met, finish, keys) = contact.finish_with_token(body, token)?;
    let master = believe(trust, &met)?;

    header.kind = Kind::FirstFinish;
    let reply = client.request(header.with_body(&finish), deadline).await?;
    let session = Session::new(header.session, &keys, master.identity);
    let expected = Header {
        kind: Kind::Record,
        counter: 0,
        ..header
    };
    let plain = session.open(&expected, reply)?;
    Ok(Established {
        answer: answer(credentials, &plain)?,
        session,
        master,
    })
}

async fn resume(
    client: &dyn Client,
    credentials: &Credentials,
    known: &MasterKeys,
    noise: &[u8; 32],
    deadline: Instant,
) -> Result<Established, ChannelError> {
    let keys = credentials.keys(client.peer_certificate());
    let (resumption, body) = Resumption::begin(keys, noise)?;
    let resume = Header::bare(Kind::Resume, Class::Resume).with_body(&body);
    let reply = loop {
        let reply = client.request(resume.clone(), deadline).await?;
        let Err(ChannelError::Busy { after }) = expect(&reply, Kind::ResumeReply) else {
            break reply;
        };
        // A busy master has not looked into the message. Sent again, it costs neither side another agreement.
        let pause = after + jitter(after);
        if Clock.after(pause) >= deadline {
            break reply;
        }
        Clock.pause(pause).await;
    };
    let (header, body) = expect(&reply, Kind::ResumeReply)?;
    let (payload, keys) = resumption.finish(body)?;
    Ok(Established {
        answer: answer(credentials, &payload)?,
        session: Session::new(header.session, &keys, known.identity),
        master: known.clone(),
    })
}

/// Reads the master's decision. A version that the peer does not speak, or one that cannot be shown to
/// operators, is none.
fn answer(credentials: &Credentials, bytes: &[u8]) -> Result<Admission, ChannelError> {
    let answer: Admission = decode(bytes)?;
    let ours = credentials.versions;
    let fits = match &answer {
        Admission::Accepted(welcome) => {
            let PeerVersion { protocol, software } = &welcome.master;
            (ours.lowest..=ours.highest).contains(protocol) && is_presentable(software)
        }
        Admission::NoCommonVersion { software, .. } => is_presentable(software),
        _ => true,
    };
    fits.then_some(answer).ok_or(ChannelError::Mismatch)
}

/// Returns the keys of the master that was met, if it is the trusted master, or signed records lead to it from the
/// trusted one.
fn believe(trust: &MasterTrust, met: &MetMaster) -> Result<MasterKeys, ChannelError> {
    let before = met.successors.predecessors_of(met.identity);
    let had = |finger: &str| {
        let mut identities = before.iter().chain([&met.identity]);
        identities.any(|identity| identity.has_fingerprint(finger))
    };
    let is_trusted = match trust {
        MasterTrust::Pinned(known) => {
            known.identity == met.identity || before.contains(&known.identity)
        }
        MasterTrust::Successor { known, finger } => before.contains(&known.identity) && had(finger),
        MasterTrust::FirstUse { finger } => finger.as_deref().is_none_or(had),
    };
    if !is_trusted {
        return Err(ChannelError::WrongMaster {
            expected: trust.fingerprint().unwrap_or_default(),
            found: met.identity.fingerprint(),
        });
    }
    let known = match trust {
        MasterTrust::Pinned(known) if known.identity == met.identity => Some(known),
        _ => None,
    };
    if known.is_some_and(|known| met.issued < known.issued) {
        return Err(ChannelError::OldNoiseKey);
    }
    let keys = MasterKeys {
        identity: met.identity,
        noise: Some(met.noise),
        issued: met.issued,
        // A master that has lost its records still has the identity that was trusted.
        predecessors: known.map_or_else(Vec::new, |known| known.predecessors.clone()),
    };
    Ok(keys.with_predecessors(before.iter().map(PublicIdentity::fingerprint)))
}

/// Splits a reply of `kind` into header and body. Refusals and other kinds become errors.
fn expect(reply: &[u8], kind: Kind) -> Result<(Header, &[u8]), ChannelError> {
    let (header, body) = Header::decode(reply)?;
    match header.kind {
        found if found == kind => Ok((header, body)),
        Kind::Refused => Err(ChannelError::Refused(Refusal::from_body(body))),
        Kind::Busy => {
            let after = body.first_chunk().map_or(1000, |b| u32::from_be_bytes(*b));
            let after = Duration::from_millis(u64::from(after));
            // It is not authenticated.
            Err(ChannelError::Busy {
                after: after.clamp(MIN_BUSY_DELAY, MAX_BUSY_DELAY),
            })
        }
        _ => Err(ChannelError::Mismatch),
    }
}

/// A session at the connecting side. Any number of tasks can share it: every request has its own
/// counter, which the reply repeats.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    records: InitiatorRecords,
    master: PublicIdentity,
    next: AtomicU64,
}

impl Session {
    fn new(id: SessionId, keys: &SplitKeys, master: PublicIdentity) -> Self {
        Self {
            id,
            records: InitiatorRecords::new(keys),
            master,
            // Zero answered the handshake.
            next: AtomicU64::new(1),
        }
    }

    /// Returns the session's id, as logs on both sides show it.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Returns the master's identity.
    pub fn master(&self) -> PublicIdentity {
        self.master
    }

    /// Returns the opener of this session's publications to the minion `id`.
    pub fn opener(&self, id: &MinionId, group: &GroupKeyMaterial) -> PublicationOpener {
        PublicationOpener::new(
            self.master,
            self.id,
            Arc::clone(&self.records.publications),
            id,
            group,
        )
    }

    /// Sends a request, and waits for the reply until `deadline`.
    ///
    /// # Errors
    /// `Transport` when the transport failed (its kind says whether the request may have been
    /// carried out); `Refused` when the master does not know this session, so a new one is needed;
    /// `Forged` or `Mismatch` when the reply is not the master's.
    ///
    /// # Cancel safety
    /// As [`Client::request`]: a request that was sent may still be carried out.
    pub async fn ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        client: &dyn Client,
        class: Class,
        request: &Q,
        deadline: Instant,
    ) -> Result<A, ChannelError> {
        let header = Header {
            kind: Kind::Record,
            session: self.id,
            class,
            counter: self.next.fetch_add(1, Ordering::Relaxed),
        };
        let sealed = self.records.seal_request(&header, encode(request));
        let reply: Bytes = client.request(sealed, deadline).await?;
        Ok(decode(&self.open(&header, reply)?)?)
    }

    fn open(&self, expected: &Header, mut reply: Bytes) -> Result<BytesMut, ChannelError> {
        let (header, _) = expect(&reply, Kind::Record)?;
        if header.session != expected.session || header.counter != expected.counter {
            return Err(ChannelError::Mismatch);
        }
        reply.advance(HEADER_LEN);
        self.records.open_reply(&header, reply)
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use saline_messages::busy;
    use saline_protocol::transport::{Endpoint, Subscriber, TopicFilter};

    /// Somebody on the path who answers everything after a millisecond with a [`Kind::Busy`] of this time.
    #[derive(Debug)]
    struct AlwaysBusy {
        after: Duration,
        asked: AtomicU64,
    }

    #[async_trait]
    impl Client for AlwaysBusy {
        async fn request(
            &self,
            payload: Bytes,
            _: Instant,
        ) -> saline_protocol::transport::Result<Bytes> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Clock.pause(Duration::from_millis(1)).await;
            let (header, _) = Header::decode(&payload).unwrap();
            Ok(busy(&header, self.after))
        }

        async fn subscribe(
            &self,
            _: Option<&Endpoint>,
            _: Vec<TopicFilter>,
            _: Instant,
        ) -> saline_protocol::transport::Result<Box<dyn Subscriber>> {
            unreachable!("no handshake subscribes")
        }

        async fn shutdown(&self, _: Duration) -> saline_protocol::transport::Result<()> {
            Ok(())
        }
    }

    /// Resumes against somebody who is always busy, for ten seconds. Returns the delay that it is left with and the
    /// number of messages that were sent.
    async fn resumed(after: Duration) -> (Duration, u64) {
        let credentials = Credentials {
            role: Role::Minion,
            id: "m1".to_owned(),
            identity: Arc::new(Identity::generate().unwrap()),
            noise: NoiseKey::generate().unwrap(),
            versions: ProtocolVersions::OURS,
        };
        let identity = Identity::generate().unwrap().public();
        let master = MasterKeys::of(identity, &NoiseKey::generate().unwrap());
        let link = AlwaysBusy {
            after,
            asked: AtomicU64::new(0),
        };
        let deadline = Clock.after(Duration::from_secs(10));
        let trust = MasterTrust::Pinned(master);
        match establish(&link, &credentials, &trust, deadline).await {
            Err(ChannelError::Busy { after }) => {
                // The last message is sent before the deadline. Its answer takes a millisecond, and the pause before
                // it ends up to another one late, which is the resolution of Tokio's timers.
                assert!(Clock.now() <= deadline + Duration::from_millis(2));
                (after, link.asked.into_inner())
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_of_no_time_is_not_asked_again_at_once() {
        let (after, asked) = resumed(Duration::ZERO).await;
        assert_eq!(after, MIN_BUSY_DELAY);
        assert!(
            (50..=100).contains(&asked),
            "{asked} messages in ten seconds"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_for_weeks_is_one_of_seconds() {
        let (after, asked) = resumed(Duration::from_secs(1 << 21)).await;
        assert_eq!((after, asked), (MAX_BUSY_DELAY, 1));
    }
}
