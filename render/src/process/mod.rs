//! Rendering in a process of its own.
//!
//! A template is a program of the operator's that works on what minions say, so it runs where neither the identity nor
//! the store of a daemon is: `saline-render` is started through `saline-exec` with an empty environment and one socket,
//! and takes orders over it. Its address space is limited, it may make no system call that opens, starts or sends
//! anything (the module `sandbox`), and it is killed when it does not answer in time. It asks the daemon for each file.
//!
//! It lives on after an order: starting it takes longer than most files need ([`Renderers`]).

mod frame;
mod main_loop;
mod renderers;
mod sandbox;
#[cfg(test)]
mod tests;

pub use main_loop::main;
pub use renderers::{RenderCounts, RenderProgram, Renderers};
