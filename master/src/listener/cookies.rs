//! Cookies for first contacts while the master is under load: whoever repeats one has shown that it
//! receives the answers. Nothing is stored for it. After WireGuard and DTLS (RFC 9147, section 5.1).

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use saline_messages::random::{self, NoRandomness};
use saline_protocol::transport::{Clock, Instant, Peer};

/// How long a secret is used. A cookie is good for this time at least, and for twice as long at most.
const ROTATION: Duration = Duration::from_secs(120);

/// Makes and checks cookies.
pub(super) struct Cookies {
    clock: Clock,
    /// The listener whose connections the cookies are for.
    listener: usize,
    secrets: Mutex<Option<Secrets>>,
}

struct Secrets {
    current: hmac::Key,
    before: Option<hmac::Key>,
    since: Instant,
}

impl Cookies {
    pub(super) fn new(clock: Clock, listener: usize) -> Self {
        Self {
            clock,
            listener,
            secrets: Mutex::default(),
        }
    }

    /// Returns the cookie for a peer.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(super) fn cookie(&self, peer: Peer) -> Result<Vec<u8>, NoRandomness> {
        let said = self.said(peer);
        self.with_secrets(|secrets| hmac::sign(&secrets.current, &said).as_ref().to_vec())
    }

    /// Whether this is a cookie that the peer was given a short time ago.
    pub(super) fn is_valid(&self, peer: Peer, cookie: &[u8]) -> bool {
        let said = self.said(peer);
        let check = |secrets: &mut Secrets| {
            let keys = std::iter::once(&secrets.current).chain(&secrets.before);
            let mut tags = keys.map(|key| hmac::sign(key, &said));
            tags.any(|tag| verify_slices_are_equal(tag.as_ref(), cookie).is_ok())
        };
        self.with_secrets(check).unwrap_or(false)
    }

    /// Returns what identifies the peer: its listener, its connection and its address.
    fn said(&self, peer: Peer) -> Vec<u8> {
        let address = peer.address.map(|address| address.to_string());
        let mut said = (self.listener as u64).to_be_bytes().to_vec();
        said.extend(peer.connection.to_be_bytes());
        said.extend(address.unwrap_or_default().into_bytes());
        said
    }

    fn with_secrets<T>(&self, act: impl FnOnce(&mut Secrets) -> T) -> Result<T, NoRandomness> {
        let now = self.clock.now();
        let mut slot = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || -> Result<hmac::Key, NoRandomness> {
            let secret: [u8; 32] = random::bytes()?;
            Ok(hmac::Key::new(hmac::HMAC_SHA256, &secret))
        };
        let secrets = match slot.take() {
            None => Secrets {
                current: fresh()?,
                before: None,
                since: now,
            },
            Some(old) => {
                let age = now - old.since;
                if age < ROTATION {
                    old
                } else {
                    Secrets {
                        current: fresh()?,
                        before: (age < ROTATION * 2).then_some(old.current),
                        since: now,
                    }
                }
            }
        };
        Ok(act(slot.insert(secrets)))
    }
}

impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookies")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cookie_is_good_for_its_peer_and_for_a_while() {
        let cookies = Cookies::new(Clock, 0);
        let address = "192.0.2.1:1000".parse().ok();
        let peer = Peer::new(7, address);
        let cookie = cookies.cookie(peer).unwrap();
        assert!(cookies.is_valid(peer, &cookie));
        assert!(!cookies.is_valid(Peer::new(8, address), &cookie));
        assert!(!cookies.is_valid(Peer::new(7, None), &cookie));
        assert!(!Cookies::new(Clock, 1).is_valid(peer, &cookie));
        assert!(!cookies.is_valid(peer, &[]));
        Clock.pause(ROTATION).await;
        assert!(cookies.is_valid(peer, &cookie), "from the secret before");
        Clock.pause(ROTATION).await;
        assert!(!cookies.is_valid(peer, &cookie));
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_secret_does_not_come_back() {
        let cookies = Cookies::new(Clock, 0);
        let peer = Peer::new(7, None);
        let cookie = cookies.cookie(peer).unwrap();
        Clock.pause(ROTATION * 2).await;
        assert!(!cookies.is_valid(peer, &cookie));
    }
}
