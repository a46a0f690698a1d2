//! The bytes on the wire: frames, the greeting, and the buffers that frames are read from and
//! written to.

mod bounds;
mod decode;
pub(crate) mod frame;
mod frame_reader;
mod greeting;
mod publication;
mod send_buffer;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use bounds::Bounds;
pub(crate) use decode::Frame;
pub(crate) use frame::{FrameKind, Violation};
pub(crate) use frame_reader::FrameReader;
pub(crate) use greeting::{Greeting, VERSIONS};
pub(crate) use publication::PublicationFrame;
pub(crate) use send_buffer::{BOUNDARY, SendBuffer};
