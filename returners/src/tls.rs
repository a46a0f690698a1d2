//! The authorities whose certificates servers must have.
//!
//! TLS 1.3, and always with a certificate for the server's name.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use saline_protocol::transport::Context;

/// Where systems keep the certificates of the authorities that they trust.
const OF_THE_SYSTEM: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Returns the configuration of a client. `authorities` is a PEM file; without it, those that the system trusts count.
///
/// # Errors
/// When there are no authorities; the text says why.
pub(crate) async fn client(
    authorities: Option<&Path>,
    context: &Context,
) -> Result<Arc<ClientConfig>, String> {
    let path = authorities.map(Path::to_owned);
    let reading = context.spawn_blocking(move || read(path));
    reading.await.map_err(|error| error.to_string())?
}

fn read(authorities: Option<PathBuf>) -> Result<Arc<ClientConfig>, String> {
    let path = match authorities {
        Some(path) => path,
        None => {
            let known = OF_THE_SYSTEM.map(PathBuf::from);
            known.into_iter().find(|path| path.exists()).ok_or(
                "this system has no certificates of authorities: install ca-certificates, or name a file in sslrootcert",
            )?
        }
    };
    let shown = path.display();
    let unread = |error: &dyn std::fmt::Display| {
        format!(
            "the authorities of the server's certificate (sslrootcert) cannot be read from {shown}: {error}"
        )
    };
    let pem = std::fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            unread(&"the user that the master runs as may not; let that user read the file and enter its folders")
        }
        _ => unread(&error),
    })?;
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| unread(&error))?;
    // Systems ship a few certificates that no library takes.
    let (taken, _) = store.add_parsable_certificates(certificates);
    if taken == 0 {
        let why = "it has no certificate of an authority in PEM's form";
        return Err(unread(&why));
    }
    let config = ClientConfig::builder()
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
