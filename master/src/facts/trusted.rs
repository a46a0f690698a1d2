//! What root says of a minion, and what a minion says of itself: two types.

use std::borrow::Cow;
use std::sync::Arc;

use saline_data::Value;
use saline_messages::MinionId;
use saline_targeting::{AssignmentError, Candidate, Grains, PackedGrains};

use crate::settings::RootFacts;

/// What root says of one minion: that its key is accepted under this id, what `minions.d` assigns to it, and the grains
/// that `trusted_grains` lists.
///
/// Such facts are made here alone, of ids with an accepted key:
///
/// ```compile_fail,E0624
/// # use saline_messages::MinionId;
/// use saline_master::facts::Trusted;
///
/// fn believe(id: &MinionId) -> Trusted {
///     Trusted::of(id, None, todo!())
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Trusted {
    id: MinionId,
    root: Arc<RootFacts>,
    /// Everything that the minion reported: other grains than the listed ones are not shown.
    reported: Option<Arc<PackedGrains>>,
}

impl Trusted {
    /// Takes an id of which the key store has an accepted key, and what the minion reported. This is the only way to
    /// make trusted facts.
    pub(super) fn of(
        accepted: &MinionId,
        reported: Option<Arc<PackedGrains>>,
        root: &Arc<RootFacts>,
    ) -> Self {
        Self {
            id: accepted.clone(),
            root: Arc::clone(root),
            reported,
        }
    }

    /// Returns the id.
    pub fn id(&self) -> &MinionId {
        &self.id
    }

    /// Returns the trusted grains; none while the minion has reported no grains, so that a target that looks at them decides
    /// nothing.
    pub fn grains(&self) -> Option<&dyn Grains> {
        self.reported.is_some().then_some(self as &dyn Grains)
    }

    /// Returns what root says of all minions.
    pub(crate) fn root(&self) -> &RootFacts {
        &self.root
    }

    /// Returns what `minions.d` assigns to the minion: its roles and attributes, a mapping.
    ///
    /// # Errors
    /// When two globs give it two values of one attribute.
    pub fn assigned(&self) -> Result<Value, AssignmentError> {
        self.root.assignments.of(self.id.as_str())
    }
}

impl Grains for Trusted {
    fn grain(&self, name: &str) -> Option<Cow<'_, Value>> {
        match self.root.trusted_grains.contains(name) {
            true => self.reported.as_deref()?.grain(name),
            false => None,
        }
    }

    fn all(&self) -> Cow<'_, Value> {
        let names = self.root.trusted_grains.iter();
        let listed = names.filter_map(|name| {
            let value = self.grain(name)?;
            Some((name.clone(), value.into_owned()))
        });
        Cow::Owned(Value::Map(listed.collect()))
    }
}

/// What a minion says of itself: every grain that it reported.
#[derive(Debug, Clone)]
pub struct Claimed {
    id: MinionId,
    reported: Option<Arc<PackedGrains>>,
}

impl Claimed {
    pub(super) fn of(id: &MinionId, reported: Option<Arc<PackedGrains>>) -> Self {
        Self {
            id: id.clone(),
            reported,
        }
    }
}

/// Facts about one minion, by which a target decides.
pub(super) trait Facts {
    fn candidate(&self) -> Candidate<'_>;
    fn into_id(self) -> MinionId;
}

impl Facts for Trusted {
    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            id: self.id.as_str(),
            grains: self.grains(),
            pillar: None,
        }
    }

    fn into_id(self) -> MinionId {
        self.id
    }
}

impl Facts for Claimed {
    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            id: self.id.as_str(),
            grains: self.reported.as_deref().map(|grains| grains as &dyn Grains),
            pillar: None,
        }
    }

    fn into_id(self) -> MinionId {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use saline_data::Packed;
    use saline_targeting::{Assignment, Assignments, Attribute};

    use super::*;

    #[test]
    fn trusted_facts_show_the_listed_grains_and_what_is_assigned_alone() {
        let attribute = Attribute {
            value: Value::from("berlin"),
            place: "a.yaml:1:1".to_owned(),
        };
        let assignment = Assignment {
            glob: "web*".to_owned(),
            place: "a.yaml:1:1".to_owned(),
            roles: BTreeSet::from(["web".to_owned()]),
            attributes: BTreeMap::from([("site".to_owned(), attribute)]),
        };
        let root = Arc::new(RootFacts {
            assignments: Assignments::new(vec![assignment]).unwrap(),
            trusted_grains: BTreeSet::from(["os".to_owned(), "absent".to_owned()]),
        });
        let reported = Value::map([("os", "Debian"), ("role", "web")].map(|(k, v)| (k, v.into())));
        let reported = PackedGrains::read(&Packed::pack(&reported)).unwrap();
        let id = MinionId::parse("web1").unwrap();
        let trusted = Trusted::of(&id, Some(Arc::new(reported)), &root);
        let os = Value::from("Debian");
        assert_eq!(trusted.grain("os").as_deref(), Some(&os));
        assert_eq!(
            (trusted.grain("role"), trusted.grain("absent")),
            (None, None)
        );
        assert_eq!(*trusted.all(), Value::map([("os", os)]));
        let assigned = Value::map([
            ("roles", Value::texts(["web"])),
            ("site", Value::from("berlin")),
        ]);
        assert_eq!(trusted.assigned(), Ok(assigned));
    }
}
