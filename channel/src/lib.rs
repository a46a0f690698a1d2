//! Secure sessions over any transport: plain ZeroMQ is as safe as QUIC, and no backend can weaken
//! them.
//!
//! - [`Identity`] identifies a peer; [`NoiseKey`] is its key for handshakes. A [`MasterIdentity`] can be rotated.
//! - [`noise`] makes sessions: XX at first contact, IK when the master is known.
//! - [`record`] seals requests and replies, with a [`replay`] window that is always on.
//! - [`publication`] seals and numbers the publications to all minions or to one.
//! - A connecting program needs only [`establish`] and [`Session`].

mod cipher;
mod error;
mod identity;
pub mod key_file;
mod master_identity;
mod master_keys;
pub mod noise;
mod noise_key;
mod pem;
mod pinned_master;
pub mod publication;
pub mod record;
pub mod replay;
#[cfg(test)]
mod secret_tests;
mod session;
mod stored_secrets;
mod successors;
mod token;

pub use error::{ChannelError, KeyError};
pub use identity::{Identity, PublicIdentity};
pub use master_identity::MasterIdentity;
pub use master_keys::{MasterKeys, MasterTrust};
pub use noise_key::NoiseKey;
pub use pinned_master::{Distrust, PinnedMaster};
pub use publication::{PublicationOpener, PublicationRoot};
pub use session::{
    Credentials, Established, MAX_BUSY_DELAY, MIN_BUSY_DELAY, Session, establish,
    establish_with_token,
};
pub use stored_secrets::SecretsKey;
pub use successors::{MAX_SUCCESSORS, Successors};
pub use token::{NotToken, PresentedToken, Token};
