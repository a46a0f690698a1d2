//! The connecting side of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use saline_protocol::transport::{Client, Clock, Error};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::TEST_TIMEOUT;
use super::cipher::Key;
use super::handshake::{ATTEMPT_TIME, FirstContact, Oneself, Resumption, Split};
use super::header::{Header, class, kind};
use super::keys::{Identity, MasterKeys, NoiseKey};
use super::messages::{Admission, Extension, Versions, decode, encode};

/// The version that this peer is of.
pub const VERSION_1: Versions = Versions {
    lowest: 1,
    highest: 1,
};

/// The connecting peer. What it says beside version 1 is for a successor that is built on it.
#[derive(Debug)]
pub struct Credentials {
    /// One of [`role`](super::handshake::role).
    pub role: u8,
    /// A minion's id or an operator's name.
    pub id: String,
    /// The identity.
    pub identity: Identity,
    /// The Noise key.
    pub noise: NoiseKey,
    /// The versions that it speaks: [`VERSION_1`].
    pub versions: Versions,
    /// What it says in a handshake beside when that began: nothing.
    pub extensions: Vec<Extension>,
}

/// Why a request has no reply.
#[derive(Debug)]
pub enum Failure {
    /// The master refused the message in the clear, for one of the reasons in
    /// [`refusal`](super::header::refusal).
    Refused(u8),
    /// The transport failed.
    Transport(Error),
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// The connection.
    pub client: Arc<dyn Client>,
    /// The session's id.
    pub id: [u8; 16],
    /// The master's identity.
    pub master: [u8; 32],
    /// The keys.
    pub split: Split,
    seal: Key,
    open: Key,
    counter: AtomicU64,
}

impl Credentials {
    /// Creates a peer with this identity and a new Noise key.
    pub fn new(role: u8, id: &str, identity: Identity) -> Self {
        Self {
            role,
            id: id.to_owned(),
            identity,
            noise: NoiseKey::generate(),
            versions: VERSION_1,
            extensions: Vec::new(),
        }
    }

    fn oneself(&self) -> Oneself<'_> {
        let time = Clock.wall().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let attempt = Extension {
            number: ATTEMPT_TIME,
            bytes: u64::try_from(time).unwrap().to_be_bytes().to_vec(),
        };
        Oneself {
            role: self.role,
            id: &self.id,
            identity: &self.identity,
            noise: &self.noise,
            versions: self.versions,
            extensions: [vec![attempt], self.extensions.clone()].concat(),
        }
    }

    /// Makes a session with a master that this peer sees for the first time: Noise XX.
    pub async fn first_contact(
        &self,
        client: &Arc<dyn Client>,
    ) -> (Session, Admission, MasterKeys) {
        let oneself = self.oneself();
        let (contact, body) = FirstContact::begin(&oneself, client.peer_certificate());
        let first = Header::bare(kind::FIRST, class::FIRST).with_body(&body);
        let reply = client
            .request(first, Clock.after(TEST_TIMEOUT))
            .await
            .unwrap();
        let (mut header, body) = Header::decode(&reply);
        assert_eq!(header.kind, kind::FIRST_REPLY, "{body:x?}");
        let (master, finish, split) = contact.finish(&oneself, body);
        header.kind = kind::FIRST_FINISH;
        let finish = header.with_body(&finish);
        let reply = client
            .request(finish, Clock.after(TEST_TIMEOUT))
            .await
            .unwrap();
        let keys = MasterKeys {
            identity: master.introduction.identity,
            noise: master.noise,
        };
        let session = Session::new(client, header.session, keys.identity, split);
        let asked = Header {
            kind: kind::RECORD,
            counter: 0,
            ..header
        };
        let plain = session.read(&asked, &reply).unwrap();
        (session, decode(&plain), keys)
    }

    /// Makes a session with a known master: Noise IK.
    pub async fn resume(
        &self,
        client: &Arc<dyn Client>,
        master: &MasterKeys,
    ) -> Result<(Session, Admission), Failure> {
        let oneself = self.oneself();
        let certificate = client.peer_certificate();
        let (resumption, body) = Resumption::begin(&oneself, certificate, &master.noise);
        let resume = Header::bare(kind::RESUME, class::RESUME).with_body(&body);
        let reply = client.request(resume, Clock.after(TEST_TIMEOUT)).await;
        let reply = reply.map_err(Failure::Transport)?;
        let (header, body) = Header::decode(&reply);
        if header.kind == kind::REFUSED {
            return Err(Failure::Refused(body[0]));
        }
        assert_eq!(header.kind, kind::RESUME_REPLY, "{body:x?}");
        let (payload, split) = resumption.finish(body);
        let session = Session::new(client, header.session, master.identity, split);
        Ok((session, decode(&payload)))
    }
}

impl Session {
    fn new(client: &Arc<dyn Client>, id: [u8; 16], master: [u8; 32], split: Split) -> Self {
        Self {
            client: Arc::clone(client),
            id,
            master,
            seal: Key::new(&split.initiator),
            open: Key::new(&split.responder),
            split,
            // The answer to the handshake has the counter 0.
            counter: AtomicU64::new(1),
        }
    }

    /// Sends a request, and waits for the reply.
    pub async fn try_ask<Q: Serialize, A: DeserializeOwned>(
        &self,
        class: u8,
        request: &Q,
    ) -> Result<A, Failure> {
        let header = Header {
            kind: kind::RECORD,
            session: self.id,
            class,
            counter: self.counter.fetch_add(1, Ordering::Relaxed),
        };
        let sealed = self.seal.seal(&header, &[], &[], &encode(request));
        let reply = self.client.request(sealed, Clock.after(TEST_TIMEOUT)).await;
        let plain = self.read(&header, &reply.map_err(Failure::Transport)?)?;
        Ok(decode(&plain))
    }

    /// Sends a request that is answered.
    pub async fn ask<Q: Serialize, A: DeserializeOwned>(&self, class: u8, request: &Q) -> A {
        self.try_ask(class, request).await.unwrap()
    }

    fn read(&self, asked: &Header, reply: &[u8]) -> Result<Vec<u8>, Failure> {
        let (header, body) = Header::decode(reply);
        if header.kind == kind::REFUSED {
            return Err(Failure::Refused(body[0]));
        }
        assert_eq!(
            header, *asked,
            "the header of a reply is that of its request"
        );
        let plain = self.open.open(&header, &[], &[], body);
        Ok(plain.expect("a reply opens"))
    }
}
