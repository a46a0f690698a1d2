//! YAML as Salt has it, read and written.

mod entries;
mod read;
mod scalar;
mod write;

pub use read::{
    Content, Key, MAX_NESTING, MAX_NODES, MAX_TEXT, Node, Position, YamlError, parse, parse_nodes,
};
pub use scalar::{as_key, resolve};
pub use write::write;
