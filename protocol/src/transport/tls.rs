//! The certificates and keys for a backend with encryption of its own: Salt's `ssl`.

use std::fmt;
use std::sync::Arc;

/// Whether the other side has to show a certificate. Salt's `cert_reqs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerifyPeer {
    /// `CERT_NONE`: whatever it shows is taken. Who it is, the channel above proves.
    #[default]
    None,
    /// `CERT_OPTIONAL`: none is needed, but one that is shown must be signed by an authority.
    Optional,
    /// `CERT_REQUIRED`: one that is signed by an authority is needed, on either side.
    Required,
}

/// Certificates and keys, as they stood in their files: PEM. A backend reads them with the library
/// that it encrypts with, and says `Config` of what it cannot read. `Debug` does not show the key.
///
/// Secrecy does not rest on it: sessions are encrypted above every transport. It is for networks that
/// let nothing else through, and for whoever must show a certificate.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Tls {
    /// `certfile`: this side's certificate and those between it and its authority.
    pub certificates: Option<Arc<[u8]>>,
    /// `keyfile`: the private key of the first of them.
    pub key: Option<Arc<[u8]>>,
    /// `ca_certs`: the authorities that the other side's certificate must come from.
    pub authorities: Option<Arc<[u8]>>,
    /// `cert_reqs`.
    pub verify: VerifyPeer,
}

impl Tls {
    /// Encryption without a certificate of one's own, and without looking at the other side's.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a certificate chain and its key, both in PEM.
    #[must_use]
    pub fn with_certificate(mut self, chain: &[u8], key: &[u8]) -> Self {
        self.certificates = Some(chain.into());
        self.key = Some(key.into());
        self
    }

    /// Holding the other side's certificate against these authorities, in PEM.
    #[must_use]
    pub fn with_authorities(mut self, authorities: &[u8], verify: VerifyPeer) -> Self {
        self.authorities = Some(authorities.into());
        self.verify = verify;
        self
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = |part: &Option<Arc<[u8]>>| part.as_ref().map(|pem| pem.len());
        f.debug_struct("Tls")
            .field("certificates", &given(&self.certificates))
            .field("key", &self.key.as_ref().map(|_| "<secret>"))
            .field("authorities", &given(&self.authorities))
            .field("verify", &self.verify)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_does_not_show() {
        let tls = Tls::new().with_certificate(b"chain", b"hunter2");
        assert!(!format!("{tls:?}").contains("104, 117"), "{tls:?}");
        assert!(format!("{tls:?}").contains("<secret>"));
    }
}
