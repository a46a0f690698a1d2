//! Both halves over the bare libraries, as fast as we know how to use each.

mod callers;
mod frame;
pub(crate) mod quic;
pub(crate) mod tcp;
pub(crate) mod zeromq;
