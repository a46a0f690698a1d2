//! An authority and what it signs, as files hold them.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use saline_protocol::transport::{Tls, VerifyPeer};

pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// A certificate for `name`, and the other side's held against this authority.
    pub fn tls(&self, name: &str, verify: VerifyPeer) -> Tls {
        self.signed(
            CertificateParams::new(vec![name.to_owned()]).unwrap(),
            verify,
        )
    }

    /// The same with a certificate that has expired.
    pub fn expired(&self, name: &str, verify: VerifyPeer) -> Tls {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.signed(params, verify)
    }

    /// No certificate, but the same demands.
    pub fn bare(&self, verify: VerifyPeer) -> Tls {
        Tls::new().with_authorities(self.issuer.pem().as_bytes(), verify)
    }

    fn signed(&self, params: CertificateParams, verify: VerifyPeer) -> Tls {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        self.bare(verify)
            .with_certificate(certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
    }
}
