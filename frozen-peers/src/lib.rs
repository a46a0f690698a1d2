//! Peers of each version of the protocol, as they were when it was frozen. Today's daemons are tested with
//! them, so that a change which older machines would not understand fails a test.
//!
//! A peer here is written from what its version says on the wire, and shares no code with
//! `saline_protocol::{message, channel, target}`, which go on changing. Of `saline_protocol` it takes
//! `transport` alone: the wire of a transport has a version of its own. `docs/versions.md` says when a peer
//! is added and when one goes.
//!
//! A peer that cannot go on panics and says why: it is a part of a test.

pub mod v1;
