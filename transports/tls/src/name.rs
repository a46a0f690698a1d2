//! The name that a server must prove to have.

use rustls::pki_types::ServerName;
use saline_protocol::transport::{Error, ErrorKind, Result, Tls, VerifyPeer};

use crate::certificate::NAME;

/// `host` as it is asked for: the name or address that the configuration gives, not what a resolver
/// made of it. A host that no certificate can name is only a mistake where certificates are looked at.
///
/// # Errors
/// `Config` when `tls` asks for a check and no certificate can name `host`.
pub fn server_name(host: &str, tls: Option<&Tls>) -> Result<ServerName<'static>> {
    // An IPv6 address of one link has a zone behind it, which is this machine's own business.
    let bare = host.split_once('%').map_or(host, |(address, _)| address);
    if let Ok(name) = ServerName::try_from(bare) {
        return Ok(name.to_owned());
    }
    if tls.is_some_and(|tls| tls.verify != VerifyPeer::None) {
        return Err(Error::new(
            ErrorKind::Config,
            format!(
                "{host:?} is not a name that a certificate can be for, and cert_reqs asks for one"
            ),
        ));
    }
    ServerName::try_from(NAME).map_err(|error| {
        Error::new(ErrorKind::Config, "no name to ask the server for").with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_asked_for_as_they_stand() {
        let checked = Tls::new().with_authorities(b"", VerifyPeer::Required);
        for host in ["salt.example.org", "127.0.0.1", "::1", "SALT"] {
            let name = server_name(host, Some(&checked)).unwrap();
            assert_eq!(name.to_str(), host);
        }
        let zoned = server_name("fe80::1%eth0", Some(&checked)).unwrap();
        assert_eq!(zoned.to_str(), "fe80::1");
    }

    #[test]
    fn a_host_without_a_name_is_only_wrong_where_names_are_checked() {
        let checked = Tls::new().with_authorities(b"", VerifyPeer::Optional);
        let error = server_name("not a host", Some(&checked)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(server_name("not a host", Some(&Tls::new())).is_ok());
        assert!(server_name("not a host", None).is_ok());
    }
}
