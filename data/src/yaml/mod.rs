//! YAML as Salt has it, read and written.

mod entries;
mod node;
mod read;
mod scalar;
mod write;

pub use node::{Content, Key, Node, Position, YamlError};
pub use read::{MAX_NESTING, MAX_NODES, MAX_TEXT, parse, parse_nodes};
pub use scalar::{as_key, resolve};
pub use write::write;
