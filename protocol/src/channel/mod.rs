//! Secure sessions over any transport, so that a plain ZeroMQ link is as safe as QUIC and no
//! backend can get it wrong.
//!
//! - [`Identity`] is who somebody is; [`NoiseKey`] is what it agrees keys with.
//! - [`noise`] makes sessions: XX at first contact, IK when the master is known.
//! - [`record`] seals what is said in them, with a [`replay`] window that is always on.
//! - [`publication`] seals and numbers what everybody, or one minion, is told.
//! - [`establish`] and [`Session`] are all that a connecting program needs.

mod error;
mod identity;
pub mod key_file;
mod master_keys;
pub mod noise;
mod noise_key;
mod pem;
pub mod publication;
pub mod record;
pub mod replay;
mod session;

pub use error::{ChannelError, KeyError};
pub use identity::{Identity, PublicIdentity};
pub use master_keys::{MasterKeys, MasterTrust};
pub use noise_key::NoiseKey;
pub use publication::{PublicationOpener, PublicationRoot};
pub use session::{Credentials, Established, Session, establish};
