//! The certificate that the API shows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use saline_config::ApiCertificate;
use tokio_rustls::TlsAcceptor;

/// The reason why the API has no certificate to show.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CertificateError {
    #[error("rest_cherrypy: cannot read {option} in {}: {why}", path.display())]
    Unreadable {
        option: &'static str,
        path: PathBuf,
        why: String,
    },
    #[error("rest_cherrypy: ssl_crt and ssl_key do not fit together: {0}")]
    Unfit(#[source] rustls::Error),
}

/// The certificate in force. It can be replaced while connections are accepted.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: ApiCertificate,
    config: RwLock<Arc<ServerConfig>>,
}

impl Certificate {
    /// Reads a certificate with those between it and its authority, and its key.
    ///
    /// # Errors
    /// When they cannot be read, or do not fit together.
    pub(crate) fn read(files: ApiCertificate) -> Result<Self, CertificateError> {
        let config = RwLock::new(server_config(&files)?);
        Ok(Self { files, config })
    }

    /// Reads the files again. Connections that stand go on.
    ///
    /// # Errors
    /// As [`read`](Self::read); the certificate that was in force stays.
    pub(crate) fn read_again(&self) -> Result<(), CertificateError> {
        let config = server_config(&self.files)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Returns what accepts a connection with the certificate in force.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&config))
    }
}

fn server_config(files: &ApiCertificate) -> Result<Arc<ServerConfig>, CertificateError> {
    let unreadable = |option, path: &Path, why: String| CertificateError::Unreadable {
        option,
        path: path.to_owned(),
        why,
    };
    let read = |option, path: &Path| {
        std::fs::read(path).map_err(|error: io::Error| unreadable(option, path, error.to_string()))
    };
    let certificates = |option, path: &Path| {
        let pem = read(option, path)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        chain.map_err(|error| unreadable(option, path, error.to_string()))
    };
    let mut chain = certificates("ssl_crt", &files.certificate)?;
    if let Some(authorities) = &files.chain {
        chain.extend(certificates("ssl_chain", authorities)?);
    }
    let pem = read("ssl_key", &files.key)?;
    let own = PrivateKeyDer::from_pem_slice(&pem);
    let own = own.map_err(|error| unreadable("ssl_key", &files.key, error.to_string()))?;
    let crypto = Arc::new(provider::default_provider());
    let mut config = ServerConfig::builder_with_provider(crypto)
        .with_protocol_versions(rustls::ALL_VERSIONS)
        .map_err(CertificateError::Unfit)?
        .with_no_client_auth()
        .with_single_cert(chain, own)
        .map_err(CertificateError::Unfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
