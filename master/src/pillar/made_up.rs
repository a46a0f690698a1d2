//! Checks the files that top files name for a minion that is made up, so that a tree is looked through without any minions.

use std::collections::BTreeSet;
use std::sync::Arc;

use saline_config::BASE;
use saline_data::{Packed, Value};
use saline_pillar::{Check, PillarOptions, Subject, check_all};
use saline_targeting::PackedGrains;

use super::{COMPILE_TIMEOUT, NotCompiled, Pillars};

/// The id of the minion, unless its grains have another one.
const ID: &str = "made-up";

/// The grains of a common machine, from which a made-up minion has those that `trusted_grains` lists.
const GRAINS: [(&str, &str); 16] = [
    ("cpuarch", "x86_64"),
    ("domain", "example.org"),
    ("fqdn", "made-up.example.org"),
    ("host", "made-up"),
    ("init", "systemd"),
    ("kernel", "Linux"),
    ("localhost", "made-up"),
    ("lsb_distrib_codename", "bookworm"),
    ("nodename", "made-up"),
    ("os", "Debian"),
    ("os_family", "Debian"),
    ("osarch", "amd64"),
    ("oscodename", "bookworm"),
    ("osfinger", "Debian-12"),
    ("osmajorrelease", "12"),
    ("osrelease", "12"),
];

impl Pillars {
    /// Checks all files that the top files of an environment, or of all, name, for a minion that is made up: it has these grains, others
    /// of `trusted_grains` as a common machine has them, and everything that `minions.d` assigns to anybody. Returns what is
    /// wrong, a line each.
    ///
    /// # Errors
    /// See [`NotCompiled`].
    ///
    /// # Cancel safety
    /// A render that was begun goes on for half a minute at most.
    pub(crate) async fn check_all(
        &self,
        check: Check,
        pillarenv: Option<String>,
        grains: Vec<(String, Value)>,
    ) -> Result<Vec<String>, NotCompiled> {
        let asked_at = self.0.context.clock.now();
        let settings = self.0.settings.now();
        let turn = self.turn().await?;
        let parts = Arc::clone(&self.0);
        let working = self.0.context.spawn_blocking(move || {
            let tree = parts.tree(&settings.pillar);
            let ends = parts.context.clock.after(COMPILE_TIMEOUT);
            let files = tree.at(asked_at, ends, &parts.renderers);
            let root = &settings.root_facts;
            let named = grains.iter().map(|(name, _)| name.clone());
            let trusted: BTreeSet<String> =
                root.trusted_grains.iter().cloned().chain(named).collect();
            let grains = made_up(&trusted, &grains);
            let id = grains.get("id").and_then(Value::as_str).unwrap_or(ID);
            let packed = match PackedGrains::read(&Packed::pack(&grains)) {
                Ok(packed) => packed,
                Err(error) => return vec![format!("the grains are unusable: {error}")],
            };
            let subject = Subject {
                id,
                grains: Some(&packed),
                assigned: &root.assignments.of_anybody(),
            };
            let options = PillarOptions {
                strategy: settings.pillar.strategy,
                merge_lists: settings.pillar.merge_lists,
                base: BASE,
                nodegroups: &settings.nodegroups,
                assignments: &root.assignments,
                trusted_grains: &trusted,
                saltenv: None,
                pillarenv: pillarenv.as_deref(),
            };
            let errors = check_all(check, subject, &options, &files);
            drop(turn);
            errors
        });
        // It panicked otherwise, which the runtime logs.
        working.await.map_err(|_| NotCompiled::Failed)
    }
}

/// Returns the trusted grains of a minion that is made up.
fn made_up(trusted: &BTreeSet<String>, given: &[(String, Value)]) -> Value {
    let value = |name: &String| {
        let given = given.iter().find(|(given, _)| given == name);
        let known = GRAINS.iter().find(|(known, _)| known == name);
        match (given, known) {
            (Some((_, value)), _) => value.clone(),
            (None, Some((_, value))) => saline_data::yaml::resolve(value),
            (None, None) => Value::from(ID),
        }
    };
    Value::map(trusted.iter().map(|name| (name.clone(), value(name))))
}
