//! Why a handshake failed, in words for operators. `docs/tls.md` says what to do about each.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Why `error` ended a handshake, or a connection soon after it.
#[must_use]
pub fn why(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(error) => of_tls(error),
        None => match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => {
                "the other side hung up in the TLS handshake: is ssl set there as well?".into()
            }
            _ => format!("the TLS handshake broke: {error}"),
        },
    }
}

/// Returns an error of TLS as `InvalidData` that says why in words for operators, and any other
/// error as it is.
#[must_use]
pub fn explained(error: io::Error) -> io::Error {
    match is_of_tls(&error) {
        true => io::Error::new(io::ErrorKind::InvalidData, why(&error)),
        false => error,
    }
}

/// Returns whether TLS itself failed, and not the connection under it.
#[must_use]
pub fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Error>())
}

fn of_tls(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(certificate) => of_certificate(certificate),
        Error::NoCertificatesPresented => NO_CERTIFICATE.into(),
        Error::AlertReceived(alert) => refused((*alert).into()),
        Error::InvalidMessage(_) => {
            "the other side does not speak TLS: is ssl set there as well?".into()
        }
        Error::NoApplicationProtocol => NO_SALINE.into(),
        Error::PeerIncompatible(_) => format!("the other side does not speak TLS 1.3: {error}"),
        _ => format!("the TLS handshake failed: {error}"),
    }
}

const NO_CERTIFICATE: &str = "the other side shows no certificate, and cert_reqs asks for one";
const EXPIRED: &str = "the other side's certificate has expired";
const UNKNOWN_AUTHORITY: &str =
    "the other side's certificate is of an unknown authority, none of ca_certs";
const NO_SALINE: &str = "the other side speaks TLS, but not Saline inside it";

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => EXPIRED.into(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the other side's certificate is not valid yet: is the clock right?".into()
        }
        CertificateError::UnknownIssuer => UNKNOWN_AUTHORITY.into(),
        CertificateError::NotValidForName => "the other side's certificate has another name".into(),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => format!(
            "the other side's certificate has another name: {} was asked for, it is for {}",
            expected.to_str(),
            if presented.is_empty() {
                "none".to_owned()
            } else {
                presented.join(", ")
            }
        ),
        other => format!("the other side's certificate is not good: {other}"),
    }
}

/// What it means that this side ended a handshake with this alert, where rustls' own error is only there
/// as text.
#[must_use]
pub fn denied(alert: u8, text: &str) -> String {
    match AlertDescription::from(alert) {
        AlertDescription::CertificateRequired => NO_CERTIFICATE.into(),
        AlertDescription::UnknownCA => UNKNOWN_AUTHORITY.into(),
        AlertDescription::CertificateExpired => EXPIRED.into(),
        AlertDescription::NoApplicationProtocol => NO_SALINE.into(),
        AlertDescription::BadCertificate => {
            format!("the other side's certificate is not good: {text}")
        }
        _ => format!("the TLS handshake failed: {text}"),
    }
}

/// What it means that the other side ended the handshake with this alert (RFC 8446, 6).
#[must_use]
pub fn refused(alert: u8) -> String {
    let why = match AlertDescription::from(alert) {
        AlertDescription::CertificateRequired => {
            "it asks for a certificate, and this side has none: ssl:certfile and ssl:keyfile"
        }
        AlertDescription::UnknownCA => {
            "this side's certificate is of an unknown authority, none of its ca_certs"
        }
        AlertDescription::CertificateExpired => "this side's certificate has expired",
        AlertDescription::CertificateRevoked => "this side's certificate is revoked",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => "this side's certificate is not good enough for it",
        AlertDescription::NoApplicationProtocol => "it speaks TLS, but not Saline inside it",
        AlertDescription::ProtocolVersion => "it does not speak TLS 1.3",
        AlertDescription::DecodeError | AlertDescription::UnexpectedMessage => {
            "it did not understand this side's TLS"
        }
        other => return format!("the other side refused the TLS handshake: {other:?}"),
    };
    format!("the other side refused the TLS handshake: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_failure_has_its_words() {
        let tls = |error: Error| why(&io::Error::new(io::ErrorKind::InvalidData, error));
        let bad = |error| tls(Error::InvalidCertificate(error));
        assert!(bad(CertificateError::Expired).contains("expired"));
        assert!(bad(CertificateError::UnknownIssuer).contains("unknown authority"));
        assert!(bad(CertificateError::NotValidForName).contains("another name"));
        assert!(tls(Error::NoCertificatesPresented).contains("no certificate"));
        let alert = |alert| tls(Error::AlertReceived(alert));
        assert!(alert(AlertDescription::CertificateRequired).contains("this side has none"));
        assert!(alert(AlertDescription::UnknownCA).contains("unknown authority"));
        assert!(alert(AlertDescription::CertificateExpired).contains("this side's"));
        let gone = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert!(why(&gone).contains("is ssl set there"));
    }
}
