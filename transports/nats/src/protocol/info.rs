//! The JSON of `INFO` and of `CONNECT`.

use serde::{Deserialize, Serialize};

/// What a server says of itself, as far as this client looks at it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServerInfo {
    pub(crate) version: String,
    /// Whether it understands headers, and so can say that nobody has subscribed to a subject.
    pub(crate) headers: bool,
    /// The largest payload that it takes.
    pub(crate) max_payload: usize,
    /// Whether the connection has to become one of TLS now.
    pub(crate) tls_required: bool,
    /// Whether the connection may become one of TLS now.
    pub(crate) tls_available: bool,
    /// What a client signs with its nkey.
    pub(crate) nonce: Option<String>,
    /// Whether the server is about to stop ("lame duck mode").
    pub(crate) ldm: bool,
}

/// What a client says of itself.
#[derive(Default, Serialize)]
pub(crate) struct Connect {
    pub(crate) verbose: bool,
    pub(crate) pedantic: bool,
    pub(crate) tls_required: bool,
    pub(crate) name: String,
    pub(crate) lang: &'static str,
    pub(crate) version: &'static str,
    /// 1: further INFOs are understood.
    pub(crate) protocol: u8,
    /// Whether its own publications come back to it.
    pub(crate) echo: bool,
    pub(crate) headers: bool,
    pub(crate) no_responders: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pass: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) auth_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) jwt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nkey: Option<String>,
    /// The signature of the server's nonce, in Base64 for URLs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sig: Option<String>,
}
