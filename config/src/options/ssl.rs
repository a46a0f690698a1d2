//! Salt's `ssl`: certificates and keys.

use std::sync::Arc;

use saline_data::Value;
use saline_protocol::transport::{Tls, VerifyPeer};

use crate::given::Given;
use saline_data::yaml::{Content, YamlError};

/// Reads the option and its files, so that an error about a file has the place in the
/// configuration.
pub(super) fn read(given: &Given<'_>) -> Result<Option<Tls>, YamlError> {
    let entries = match &given.node.content {
        Content::Scalar(Value::Null | Value::Bool(false)) => return Ok(None),
        Content::Scalar(Value::Bool(true)) => return Ok(Some(Tls::new())),
        Content::Map(entries) => entries,
        _ => return Err(given.wrong("a mapping of certfile, keyfile, ca_certs and cert_reqs")),
    };
    let mut tls = Tls::new();
    for (key, node) in entries {
        let name = format!("ssl:{}", key.name);
        let entry = given.entry(&name, node);
        match key.name.as_str() {
            "certfile" => tls.certificates = Some(pem(&entry)?),
            "keyfile" => {
                tls.key = Some(pem(&entry)?);
                warn_of_readers(&entry)?;
            }
            "ca_certs" => tls.authorities = Some(pem(&entry)?),
            "cert_reqs" => {
                tls.verify = entry.checked("CERT_NONE, CERT_OPTIONAL or CERT_REQUIRED", verify)?
            }
            _ => {
                return Err(key.position.error(format!(
                    "unknown option {name:?}; known are: certfile, keyfile, ca_certs, cert_reqs"
                )));
            }
        }
    }
    if tls.certificates.is_some() != tls.key.is_some() {
        return Err(given.refuse("takes certfile and keyfile together"));
    }
    if tls.verify != VerifyPeer::None && tls.authorities.is_none() {
        return Err(given.refuse("needs ca_certs to hold certificates against"));
    }
    Ok(Some(tls))
}

fn pem(entry: &Given<'_>) -> Result<Arc<[u8]>, YamlError> {
    let path = entry.path()?;
    let bytes = std::fs::read(&path)
        .map_err(|error| entry.refuse(format!("names {}: {error}", path.display())))?;
    Ok(bytes.into())
}

/// Warns of a private key that others can read. It is used all the same: nothing that Saline promises rests on
/// TLS, and other programs may share the key by a group.
fn warn_of_readers(entry: &Given<'_>) -> Result<(), YamlError> {
    let path = entry.path()?;
    if let Ok(found) = std::fs::metadata(&path)
        && let Some(mode) = saline_private_files::mode_for_others(&found)
    {
        let shown = path.display();
        entry.warn(format!(
            "names {shown}, a private key that others can read or change (mode {mode:o}): chmod 600 it"
        ));
    }
    Ok(())
}

fn verify(text: &str) -> Result<VerifyPeer, String> {
    match text {
        "CERT_NONE" => Ok(VerifyPeer::None),
        "CERT_OPTIONAL" => Ok(VerifyPeer::Optional),
        "CERT_REQUIRED" => Ok(VerifyPeer::Required),
        _ => Err(format!(
            "takes CERT_NONE, CERT_OPTIONAL or CERT_REQUIRED, not {text:?}"
        )),
    }
}
