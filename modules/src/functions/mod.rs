//! The functions that every minion has, a module in each file.

mod cmd;
mod event;
mod grains;
mod saltutil;
mod sys;
mod test;

use crate::modules::Functions;

/// The modules, by their names.
pub(crate) const BUILT_IN: [(&str, Functions); 6] = [
    ("cmd", cmd::FUNCTIONS),
    ("event", event::FUNCTIONS),
    ("grains", grains::FUNCTIONS),
    ("saltutil", saltutil::FUNCTIONS),
    ("sys", sys::FUNCTIONS),
    ("test", test::FUNCTIONS),
];
