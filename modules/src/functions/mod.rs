//! The functions that minions have, a module in each file.
//!
//! A function has Salt's name and Salt's names of arguments, and documentation in our own words. One that changes something
//! lasting says so (`#[function(changes)]`), has a parameter `test` that only tells what it would change, and returns what it
//! did: a diff, `{old, new}`, or whether anything changed.

mod cmd;
mod event;
mod grains;
mod saltutil;
mod sys;
mod test;

use crate::modules::{Module, everywhere};

/// The modules, in alphabetical order.
pub(crate) const BUILT_IN: [Module; 6] = [
    everywhere("cmd", cmd::FUNCTIONS),
    everywhere("event", event::FUNCTIONS),
    everywhere("grains", grains::FUNCTIONS),
    everywhere("saltutil", saltutil::FUNCTIONS),
    everywhere("sys", sys::FUNCTIONS),
    everywhere("test", test::FUNCTIONS),
];
