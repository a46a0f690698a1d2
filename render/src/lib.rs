//! YAML rendered through a sandboxed template engine.
//!
//! A file of a pillar, a top file or a file of the reactor is a template whose output is YAML; a [`Document::Text`] is any text. [`Renderer`] renders it: the engine is
//! `minijinja`, which has no way to a file, a process or an attribute of the program, and counts what it does
//! ([`MAX_FUEL`]).
//!
//! # Data never becomes structure
//! A template may print what a minion or an event said. What it prints is written as it is where it is a number, a
//! truth value, `None` or a word (`is_word` in the module `placeholders`); anything else is written as a placeholder, and put in after
//! the YAML was parsed. So it can be (a part of) a scalar or of a key, and nothing else. A word is a scalar in YAML
//! wherever it stands, though it may be one that YAML takes for a number or a truth value, as in Salt.
//!
//! In files of the reactor ([`Document::Reactor`]) every text has a placeholder, single words too, since names of functions are words.
//!
//! What a template puts together itself (what macros, `set` blocks and includes write) is text of the template, in
//! which placeholders stand for data. Where such text is compared or filtered, it is the data that counts (the module `syntax`).
//! A list or a mapping is printed through `tojson` or `yaml`, on purpose.

mod containers;
mod edits;
mod error;
mod files;
mod filters;
mod header;
mod isolated;
mod jinja;
pub mod lint;
mod placeholders;
mod printing;
pub mod process;
mod renderer;
mod salt_functions;
mod salt_tags;
mod syntax;
#[cfg(test)]
mod tests;
mod text_methods;
mod undefined;

pub use error::{Place, RenderError};
pub use files::{File, Files};
pub use renderer::{Document, Renderer, Request, Step};

/// The steps that one rendering may take. A step is an instruction, or 64 bytes of text.
pub const MAX_FUEL: u64 = 2_000_000;

/// The largest file that is rendered, in bytes.
pub const MAX_FILE: usize = 1024 * 1024;

/// The largest output of a template, in bytes.
pub const MAX_OUTPUT: usize = 16 * 1024 * 1024;
