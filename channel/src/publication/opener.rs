//! Opens publications: checks who sealed them, that they are not replayed, and what was missed.

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;

use super::{Body, PublicationRoot, topic_all, topic_of, verify_job};
use crate::cipher::SealKey;
use crate::{ChannelError, PublicIdentity};
use saline_messages::{GroupKeyMaterial, Header, Job, Kind, MinionId, Secrets, SessionId, decode};
use saline_protocol::transport::Topic;

/// The reason why a publication was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PublicationError {
    /// The bytes are no publication, or do not open.
    #[error("it does not open")]
    Forged,
    /// The publication was sealed in an epoch whose key is not known, or no longer. The next
    /// heartbeat brings the key.
    #[error("it belongs to another epoch")]
    OtherEpoch,
    /// The number is not above the last one.
    #[error("it was replayed or is late")]
    Replayed,
    /// The master did not sign the job.
    #[error("its job is not signed by the master")]
    NotSigned,
}

/// An authentic publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The content.
    pub content: Content,
    /// Whether earlier publications on this topic were missed.
    pub gap: bool,
}

/// The content of a publication.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly every publication is a job, and one is open at a time"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A job to run, and the values of its secrets.
    Job(Job, Option<Secrets>),
    /// A new epoch, whose key the opener has installed.
    NewEpoch(u64),
    /// The master asks for a heartbeat now.
    HeartbeatRequest,
}

/// The numbers of the last publications to one minion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicationNumbers {
    /// The epoch that they count in.
    pub epoch: u64,
    /// The number of the last publication to all minions.
    pub last_all: u64,
    /// The number of the last publication on the minion's own topic.
    pub last_own: u64,
}

/// Opens the publications to one minion in one session.
pub struct PublicationOpener {
    master: PublicIdentity,
    session: SessionId,
    root: Arc<PublicationRoot>,
    all: Topic,
    own: Topic,
    epoch: u64,
    group: SealKey,
    own_key: SealKey,
    last_all: u64,
    last_own: u64,
}

impl PublicationOpener {
    /// Creates the opener of the minion `id` in `session`, for the epoch in its welcome.
    pub fn new(
        master: PublicIdentity,
        session: SessionId,
        root: Arc<PublicationRoot>,
        id: &MinionId,
        group: &GroupKeyMaterial,
    ) -> Self {
        Self {
            own_key: root.key(group.epoch).key,
            master,
            session,
            root,
            all: topic_all(),
            own: topic_of(id),
            epoch: group.epoch,
            group: SealKey::new(&group.key),
            last_all: group.last_number,
            last_own: 0,
        }
    }

    /// Returns the epoch whose key is known.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Installs the key of a later epoch from a heartbeat.
    pub fn install(&mut self, group: &GroupKeyMaterial) {
        if group.epoch <= self.epoch {
            return;
        }
        self.epoch = group.epoch;
        self.group = SealKey::new(&group.key);
        self.own_key = self.root.key(group.epoch).key;
        self.last_all = group.last_number;
        self.last_own = 0;
    }

    /// Returns the numbers that were received last.
    pub fn numbers(&self) -> PublicationNumbers {
        PublicationNumbers {
            epoch: self.epoch,
            last_all: self.last_all,
            last_own: self.last_own,
        }
    }

    /// Compares the numbers in the reply to a heartbeat with those received; `before` are the numbers when the
    /// heartbeat was sent. Returns whether publications were missed.
    ///
    /// The master was at `before` at least when it replied. If it says less, another minion, which knows the
    /// group key as well, has sealed an old job under a number of its own: what the master published below
    /// that was taken for replays.
    pub fn missed(&mut self, said: PublicationNumbers, before: PublicationNumbers) -> bool {
        if said.epoch != self.epoch {
            return said.epoch > self.epoch;
        }
        if before.epoch == said.epoch && before.last_all > said.last_all {
            self.last_all = said.last_all;
            return true;
        }
        let missed = said.last_all > self.last_all || said.last_own > self.last_own;
        self.last_all = self.last_all.max(said.last_all);
        self.last_own = self.last_own.max(said.last_own);
        missed
    }

    /// Opens a frame received on `topic`. It must be sealed by the master, new, and, if it is a
    /// job, signed.
    ///
    /// # Errors
    /// When the frame is refused; nothing has changed then.
    pub fn open(&mut self, topic: &Topic, frame: &[u8]) -> Result<Opened, PublicationError> {
        let (header, rest) = Header::decode(frame).map_err(|_| PublicationError::Forged)?;
        if header.kind != Kind::Publication {
            return Err(PublicationError::Forged);
        }
        let (clear, sealed) = rest
            .split_first_chunk::<16>()
            .ok_or(PublicationError::Forged)?;
        let mut epoch = [0; 8];
        epoch.copy_from_slice(&clear[..8]);
        let epoch = u64::from_be_bytes(epoch);
        let mut number = [0; 8];
        number.copy_from_slice(&clear[8..]);
        let number = u64::from_be_bytes(number);
        let own = *topic == self.own;
        if !own && *topic != self.all {
            return Err(PublicationError::Forged);
        }
        // Only the minion's own topic may run ahead: it is what carries the next epoch's key.
        if epoch < self.epoch || (epoch > self.epoch && !own) {
            return Err(PublicationError::OtherEpoch);
        }
        let later = epoch > self.epoch;
        let plain = if own {
            if header.session != self.session {
                return Err(PublicationError::OtherEpoch);
            }
            let derived;
            let key = if later {
                derived = self.root.key(epoch).key;
                &derived
            } else {
                &self.own_key
            };
            self.read(key, &header, clear, topic, sealed)?
        } else {
            self.read(&self.group, &header, clear, topic, sealed)?
        };
        let last = match (own, later) {
            (true, true) => 0,
            (true, false) => self.last_own,
            (false, _) => self.last_all,
        };
        if number <= last {
            return Err(PublicationError::Replayed);
        }
        let content = match decode(&plain).map_err(|_| PublicationError::Forged)? {
            Body::GroupKey(material) if own && material.epoch == epoch => {
                self.install(&material);
                Content::NewEpoch(epoch)
            }
            Body::Job(signed) if !later => {
                let verified = verify_job(&self.master, signed);
                let (job, secrets) = verified.ok_or(PublicationError::NotSigned)?;
                Content::Job(job, secrets)
            }
            Body::GroupKey(_) => return Err(PublicationError::Forged),
            Body::HeartbeatRequest if !later => Content::HeartbeatRequest,
            // What ran ahead of the key of its epoch: the heartbeat brings that, and the gap.
            Body::Job(_) | Body::HeartbeatRequest => return Err(PublicationError::OtherEpoch),
        };
        if own {
            self.last_own = number;
        } else {
            self.last_all = number;
        }
        Ok(Opened {
            content,
            gap: number > last + 1,
        })
    }

    fn read(
        &self,
        key: &SealKey,
        header: &Header,
        clear: &[u8; 16],
        topic: &Topic,
        sealed: &[u8],
    ) -> Result<BytesMut, PublicationError> {
        key.open(header, clear, topic.as_str().as_bytes(), sealed)
            .map_err(|_: ChannelError| PublicationError::Forged)
    }
}

impl fmt::Debug for PublicationOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PublicationOpener(epoch {:016x}, {} on {}, {} on {})",
            self.epoch, self.last_all, self.all, self.last_own, self.own
        )
    }
}

#[cfg(test)]
mod tests;
