//! The link to a master: choosing one, connecting, authenticating, subscribing, and the session that results.

pub(crate) mod candidate;
pub(crate) mod connect;
pub(crate) mod connection_state;
pub(crate) mod current_session;
pub(crate) mod handshake;
pub(crate) mod master_time;
pub(crate) mod message_size;
pub(crate) mod minion_session;
pub(crate) mod settings;
pub(crate) mod subscription;
pub(crate) mod token_file;
