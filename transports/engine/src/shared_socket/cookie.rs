//! Cookies: what a client that has received one sends back, and nobody else can make.

use std::hash::Hasher;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use saline_protocol::transport::Instant;
use siphasher::sip::SipHasher24;

use super::random;

/// The size of a cookie.
pub(super) const COOKIE: usize = 16;

/// The time at which it was made, and a hash over that, the address and the number of the connection.
pub(super) type Cookie = [u8; COOKIE];

/// How long a cookie proves an address. A way there and back is shorter.
const LIFETIME: Duration = Duration::from_secs(30);

/// Makes the cookies of one socket, and knows them again.
pub(super) struct Cookies {
    key: [u8; 16],
    started: Instant,
}

impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cookies").finish_non_exhaustive()
    }
}

impl Cookies {
    /// Returns cookies with a key of their own.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub(super) fn new(now: Instant) -> io::Result<Self> {
        Ok(Self {
            key: random()?,
            started: now,
        })
    }

    /// Returns the cookie of a client that asks for a connection.
    pub(super) fn make(&self, address: SocketAddr, client: u64, now: Instant) -> Cookie {
        let age = now.saturating_duration_since(self.started);
        self.made_at(age.as_secs(), address, client)
    }

    /// Whether a client has received a cookie a short time ago.
    pub(super) fn proves(
        &self,
        cookie: &Cookie,
        address: SocketAddr,
        client: u64,
        now: Instant,
    ) -> bool {
        let [a, b, c, d, e, f, g, h, ..] = *cookie;
        let made = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        let age = now.saturating_duration_since(self.started).as_secs();
        let is_fresh = made <= age && age - made <= LIFETIME.as_secs();
        is_fresh && self.made_at(made, address, client) == *cookie
    }

    fn made_at(&self, seconds: u64, address: SocketAddr, client: u64) -> Cookie {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(seconds);
        hasher.write_u64(client);
        match address.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write_u16(address.port());
        let mut cookie = [0; COOKIE];
        cookie[..8].copy_from_slice(&seconds.to_be_bytes());
        cookie[8..].copy_from_slice(&hasher.finish().to_be_bytes());
        cookie
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_protocol::transport::Clock;

    #[test]
    fn a_cookie_proves_one_connection_of_one_address_for_a_while() {
        let start = Clock.now();
        let cookies = Cookies::new(start).unwrap();
        let address = SocketAddr::from(([192, 0, 2, 1], 4506));
        let made = start + Duration::from_secs(100);
        let cookie = cookies.make(address, 7, made);
        let late = made + LIFETIME;
        assert!(cookies.proves(&cookie, address, 7, made));
        assert!(cookies.proves(&cookie, address, 7, late));
        assert!(!cookies.proves(&cookie, address, 7, late + Duration::from_secs(1)));
        assert!(!cookies.proves(&cookie, address, 7, start));
        assert!(!cookies.proves(&cookie, address, 8, made));
        let elsewhere = [
            SocketAddr::from(([192, 0, 2, 2], 4506)),
            SocketAddr::from(([192, 0, 2, 1], 4507)),
        ];
        for elsewhere in elsewhere {
            assert!(!cookies.proves(&cookie, elsewhere, 7, made));
        }
        assert!(!cookies.proves(&[0; COOKIE], address, 7, start));
        let other = Cookies::new(start).unwrap();
        assert!(!other.proves(&cookie, address, 7, made));
        for bit in 0..8 * COOKIE {
            let mut changed = cookie;
            changed[bit / 8] ^= 1u8 << (bit % 8);
            assert!(!cookies.proves(&changed, address, 7, made));
        }
    }
}
