//! NATS's protocol: what a server says, and what a client says. No input or output.

mod command;
mod info;
mod parser;

pub(crate) use command::{PING, PONG, publish, subscribe, unsubscribe};
pub(crate) use info::{Connect, ServerInfo};
pub(crate) use parser::{Message, Operation, Parser};

/// The longest line of an operation, in bytes, without its end: that of nats-server.
pub(crate) const MAX_CONTROL_LINE: usize = 4096;
