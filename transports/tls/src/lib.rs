//! Salt's `ssl` as rustls takes it: what the transports with TLS have in common.
//!
//! | file | holds |
//! |---|---|
//! | `certificate.rs` | certificates and keys out of PEM, or made afresh; their hash |
//! | `config.rs` | the configurations of both sides |
//! | `verifier.rs` | the check of a server whose certificate is not held against anything |
//! | `name.rs` | the name that a server must prove to have |
//! | `why.rs` | why a handshake failed, in words for operators |
//! | `refusals.rs` | one line in the log for those who were refused, and no flood of them |
//!
//! TLS 1.3 only. Nothing is resumed and nothing sent early, so every connection shows its
//! certificate and nothing can be replayed. One provider of cryptography: aws-lc-rs.
//!
//! ```
//! # use saline_protocol::transport::Tls;
//! // `ssl: True`: encrypted, with a certificate made on the spot.
//! let (server, hash) = saline_tls::server(Some(&Tls::new()), b"example/1")?;
//! let client = saline_tls::client(Some(&Tls::new()), b"example/1")?;
//! let name = saline_tls::server_name("master.example.org", Some(&Tls::new()))?;
//! # Ok::<(), saline_protocol::transport::Error>(())
//! ```

mod certificate;
mod config;
mod name;
mod verifier;
mod why;

pub use certificate::hash;
pub use config::{client, server};
pub use name::server_name;
pub use why::{denied, explained, is_of_tls, refused, why};
