//! The kinds of functions that a master has.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of a function of the master, by Salt's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RunKind {
    /// A function that looks at the master and its minions, or acts on them.
    Runner,
    /// A function about keys or the configuration of the master.
    Wheel,
}

impl RunKind {
    /// The kinds of functions of the master.
    pub const ALL: [Self; 2] = [Self::Runner, Self::Wheel];

    /// Returns Salt's name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::Wheel => "wheel",
        }
    }

    /// Returns the kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the name of a function of this kind in events and lists: `runner.manage.up`.
    pub fn shown(self, fun: &str) -> String {
        format!("{self}.{fun}")
    }
}

impl fmt::Display for RunKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        for kind in RunKind::ALL {
            assert_eq!(RunKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(RunKind::parse("local"), None);
        assert_eq!(RunKind::Wheel.shown("key.list_all"), "wheel.key.list_all");
    }
}
