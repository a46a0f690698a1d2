//! Wheels: the functions of the master about keys and its configuration, by Salt's names. A run of one is a run like that of a
//! runner; the rule `@wheel` decides about all of them, and the client `wheel` of the HTTP API calls them.

mod key;
mod minions;

use saline_functions::{Function, NamedModule, Registry};
use saline_messages::Arguments;

use super::config;
use super::run::Run;

/// The modules of every master.
const MODULES: [NamedModule<Run>; 3] = [
    ("config", config::WHEELS),
    ("key", key::FUNCTIONS),
    ("minions", minions::FUNCTIONS),
];

/// The argument that clients of Salt send with every wheel function: SaltGUI puts its field for targets there.
const MATCH: &str = "match";

/// Returns the functions of every master.
pub(super) fn built_in() -> Registry<Run> {
    let mut registry = Registry::default();
    for (module, functions) in MODULES {
        registry = registry.with(module, functions.iter().copied());
    }
    registry
}

/// Leaves out the argument that Salt too leaves out where a function does not have it.
pub(super) fn drop_match(function: &Function<Run>, arguments: &mut Arguments) {
    let mut parameters = function.parameters.iter();
    if !parameters.any(|parameter| parameter.name == MATCH) {
        arguments.named.retain(|(name, _)| name != MATCH);
    }
}
