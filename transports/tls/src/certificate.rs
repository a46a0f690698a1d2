//! Certificates and keys: out of PEM, or made afresh.

use aws_lc_rs::digest;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use saline_protocol::transport::{Error, ErrorKind, Result, Tls, VerifyPeer};

/// The name in certificates that are made here. It says nothing: nobody holds them against a name.
pub(crate) const NAME: &str = "saline";

/// A certificate, those between it and its authority, and its key.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Own {
    /// What a server shows: the one that it was given, else a fresh one.
    ///
    /// # Errors
    /// `Config` when what was given cannot be read; `Refused` when the system gives no randomness.
    pub(crate) fn of_server(tls: Option<&Tls>) -> Result<Self> {
        match tls.map(Self::given).transpose()?.flatten() {
            Some(given) => Ok(given),
            None => Self::fresh(),
        }
    }

    /// A self-signed one, of the kind (Ed25519) that an identity key would sign.
    fn fresh() -> Result<Self> {
        let make = || {
            let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519)?;
            let params = rcgen::CertificateParams::new(vec![NAME.to_owned()])?;
            let der = params.self_signed(&key)?.der().clone();
            Ok((vec![der], PrivatePkcs8KeyDer::from(key.serialize_der())))
        };
        let (chain, key) = make().map_err(|error: rcgen::Error| {
            Error::new(ErrorKind::Refused, "cannot make a certificate").with_source(error)
        })?;
        let key = key.into();
        Ok(Self { chain, key })
    }

    /// The one that was given, if any.
    ///
    /// # Errors
    /// `Config` when it cannot be read.
    pub(crate) fn given(tls: &Tls) -> Result<Option<Self>> {
        match (&tls.certificates, &tls.key) {
            (Some(chain), Some(key)) => Ok(Some(Self {
                chain: certificates(chain, "certfile")?,
                key: PrivateKeyDer::from_pem_slice(key).map_err(|e| unread("keyfile", e))?,
            })),
            (None, None) => Ok(None),
            _ => Err(Error::new(
                ErrorKind::Config,
                "ssl: certfile and keyfile belong together",
            )),
        }
    }

    /// SHA-256 of the certificate itself.
    pub(crate) fn hash(&self) -> [u8; 32] {
        self.chain.first().map_or([0; 32], |der| hash(der))
    }
}

/// Whom the other side's certificate must come from; `None` when it is not looked at.
///
/// # Errors
/// `Config` when `cert_reqs` asks for authorities that are not given or cannot be read.
pub(crate) fn authorities(tls: &Tls) -> Result<Option<RootCertStore>> {
    if tls.verify == VerifyPeer::None {
        return Ok(None);
    }
    let Some(pem) = &tls.authorities else {
        return Err(Error::new(
            ErrorKind::Config,
            "ssl: cert_reqs needs ca_certs to hold certificates against",
        ));
    };
    let mut store = RootCertStore::empty();
    for authority in certificates(pem, "ca_certs")? {
        store.add(authority).map_err(|e| unread("ca_certs", e))?;
    }
    Ok(Some(store))
}

/// Every certificate of a PEM file; at least one.
fn certificates(pem: &[u8], option: &'static str) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|error| unread(option, error))?;
    if read.is_empty() {
        return Err(Error::new(
            ErrorKind::Config,
            format!("ssl: {option} holds no certificate"),
        ));
    }
    Ok(read)
}

fn unread(option: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("ssl: {option} cannot be read: {error}"),
    )
    .with_source(error)
}

/// SHA-256 of a certificate in DER: what both ends of a link know it by.
#[must_use]
pub fn hash(der: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, der).as_ref());
    hash
}
