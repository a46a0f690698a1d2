//! `manage`: the minions that are present, and those that are not.

use saline_functions::{Failure, function};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use saline_data::Value;
use saline_messages::{MinionId, PlannedEnd};

use super::Functions;
use super::run::Run;
use crate::keys::KeyStore;
use crate::sessions::FleetVersions;

type Result<T, E = Failure> = std::result::Result<T, E>;

// Salt's `up` and `down` ask the minions, the others the presence that the master knows. Here all of them tell the
// latter, and are one function under several names.
pub(super) const FUNCTIONS: Functions = &[&DOWN, &STATUS, &TRANSPORTS, &UP, &VERSIONS];

/// The further names of functions.
pub(super) const ALIASES: [(&str, &str); 4] = [
    ("alived", "manage.up"),
    ("not_alived", "manage.down"),
    ("not_present", "manage.down"),
    ("present", "manage.up"),
];

/// The accepted minions that are present, and those that are not.
#[derive(Debug)]
struct Presence {
    up: BTreeSet<MinionId>,
    down: BTreeSet<MinionId>,
    /// The minions that are away because their machines do what was planned.
    planned: BTreeMap<MinionId, PlannedEnd>,
}

impl Presence {
    async fn look(run: &Run) -> Result<Self> {
        // Keys first: a minion that is accepted meanwhile then shows as present, not as down.
        let accepted = run.parts.read_minion_keys(KeyStore::accepted_ids).await?;
        let mut presence = Self::of(accepted.iter().cloned(), present(run));
        presence.set_planned(|id| run.parts.sessions.planned_end(id));
        Ok(presence)
    }

    fn of(accepted: impl Iterator<Item = MinionId>, up: BTreeSet<MinionId>) -> Self {
        let down = accepted.filter(|id| !up.contains(id)).collect();
        Self {
            up,
            down,
            planned: BTreeMap::new(),
        }
    }

    /// Takes the minions out of those that are down whose machines do what was planned.
    fn set_planned(&mut self, planned: impl Fn(&MinionId) -> Option<PlannedEnd>) {
        self.down.retain(|id| match planned(id) {
            Some(end) => self.planned.insert(id.clone(), end).is_some(),
            None => true,
        });
    }

    fn status(&self) -> Value {
        let mut status = vec![("up", list(&self.up)), ("down", list(&self.down))];
        if !self.planned.is_empty() {
            let planned = self.planned.iter();
            let planned = planned.map(|(id, end)| {
                let text = match end {
                    PlannedEnd::Reboot => "rebooting (planned)",
                    PlannedEnd::PowerOff => "shutting down (planned)",
                };
                (id.as_str(), Value::from(text))
            });
            status.push(("planned", Value::map(planned)));
        }
        Value::map(status)
    }
}

/// Returns the minions that are present.
fn present(run: &Run) -> BTreeSet<MinionId> {
    let sessions = run.parts.sessions.all_alive();
    let present = sessions
        .iter()
        .filter_map(|session| session.principal.minion());
    present.cloned().collect()
}

fn list(minions: &BTreeSet<MinionId>) -> Value {
    Value::texts(minions.iter().map(MinionId::as_str))
}

/// Returns the minions that are present: each has a session, and has sent something within two heartbeats. No minion is
/// asked.
///
/// show_ip
///     Returns each with where the master sees it: its address, or the account by which it reaches a messaging system.
///
/// CLI Example:
///
///     saline-run manage.up
///     saline-run manage.up show_ip=True
#[function]
pub(super) async fn up(run: &Run, #[default(false)] show_ip: bool) -> Value {
    if !show_ip {
        return list(&present(run));
    }
    let sessions = run.parts.sessions.all_alive();
    let places = sessions.iter().filter_map(|session| {
        let id = session.principal.minion()?;
        Some((id.to_string(), Value::from(session.peer.place())))
    });
    let places: BTreeMap<String, Value> = places.collect();
    Value::Map(places.into_iter().collect())
}

/// Returns the accepted minions that are not present. No minion is asked. For a quarter of an hour those are left out whose machines
/// reboot or shut down because `system.reboot` or `system.shutdown` was run on them.
///
/// CLI Example:
///
///     saline-run manage.down
#[function]
async fn down(run: &Run) -> Result<Value> {
    Ok(list(&Presence::look(run).await?.down))
}

/// Returns the accepted minions by whether they are present (`up`) or not (`down`). No minion is asked. Those whose machines reboot
/// or shut down because that was planned through Saline are `planned` for a quarter of an hour.
///
/// CLI Example:
///
///     saline-run manage.status
#[function]
async fn status(run: &Run) -> Result<Value> {
    Ok(Presence::look(run).await?.status())
}

/// Returns the transports that the master serves, and the minions that are connected over each: who moves a fleet to another
/// transport sees which minions are left.
///
/// CLI Example:
///
///     saline-run manage.transports
#[function]
async fn transports(run: &Run) -> Value {
    let listeners = run.parts.listeners.iter();
    let mut transports: Vec<_> = listeners
        .map(|endpoint| (endpoint.scheme.clone(), BTreeSet::new()))
        .collect();
    for session in run.parts.sessions.all_alive() {
        if let Some(id) = session.principal.minion()
            && let Some((_, minions)) = transports.get_mut(session.listener)
        {
            minions.insert(id.clone());
        }
    }
    let entries = transports.into_iter();
    Value::Map(
        entries
            .map(|(name, minions)| (name, list(&minions)))
            .collect(),
    )
}

/// Returns the version of the master and those of the minions that are present, grouped by whether they are older or newer.
///
/// CLI Example:
///
///     saline-run manage.versions
#[function]
async fn versions(run: &Run) -> Value {
    let fleet = run.parts.sessions.fleet_versions(run.parts.versions);
    grouped(fleet)
}

/// Groups versions as Salt's `manage.versions` does.
fn grouped(fleet: FleetVersions) -> Value {
    let group = |which: Ordering| {
        let members = fleet.minions.iter().filter(|(_, version)| {
            numbers(&version.software).cmp(&numbers(&fleet.software)) == which
        });
        let members = members.map(|(id, version)| {
            let text = match fleet.versions.lowest == fleet.versions.highest {
                true => version.software.clone(),
                // Which of several protocols a minion speaks says what an upgrade is good for.
                false => format!("{} (protocol {})", version.software, version.protocol),
            };
            (id.to_string(), Value::from(text))
        });
        members.collect::<Vec<_>>()
    };
    let mut entries = vec![("Master".to_owned(), Value::from(fleet.software.as_str()))];
    for (name, which) in [
        ("Up to date", Ordering::Equal),
        ("Minion requires update", Ordering::Less),
        ("Minion newer than master", Ordering::Greater),
    ] {
        let members = group(which);
        if !members.is_empty() {
            entries.push((name.to_owned(), Value::Map(members)));
        }
    }
    Value::Map(entries)
}

/// Returns the numbers of a version, for comparison; what is no number counts as zero.
fn numbers(version: &str) -> Vec<u64> {
    let parts = version.split(['.', '-', '+']).take(3);
    parts.map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use saline_messages::{PeerVersion, ProtocolVersions};

    use super::super::tests::shown;
    use super::*;

    #[test]
    fn accepted_minions_are_up_or_down() {
        let ids = |names: &[&str]| {
            let ids: Vec<_> = names
                .iter()
                .map(|id| MinionId::parse(id).unwrap())
                .collect();
            ids.into_iter()
        };
        // c was accepted after the keys were read.
        let presence = Presence::of(ids(&["d", "b", "a"]), ids(&["c", "a"]).collect());
        assert_eq!(shown(&presence.status()), "{up: [a, c], down: [b, d]}");
        let mut presence = presence;
        presence.set_planned(|id| (id.as_str() == "d").then_some(PlannedEnd::Reboot));
        assert_eq!(
            shown(&presence.status()),
            "{up: [a, c], down: [b], planned: {d: rebooting (planned)}}"
        );
    }

    #[test]
    fn minions_are_grouped_by_what_they_need() {
        let minion = |id: &str, software: &str| {
            let version = PeerVersion {
                protocol: 1,
                software: software.to_owned(),
            };
            (MinionId::parse(id).unwrap(), version)
        };
        let value = grouped(FleetVersions {
            software: "1.10.0".to_owned(),
            versions: ProtocolVersions {
                lowest: 1,
                highest: 2,
            },
            minions: vec![
                minion("a", "1.10.0"),
                minion("b", "1.9.12"),
                minion("c", "2.0.0-rc1"),
                minion("d", "from another planet"),
            ],
        });
        assert_eq!(
            shown(&value),
            "{Master: 1.10.0, Up to date: {a: 1.10.0 (protocol 1)}, \
             Minion requires update: {b: 1.9.12 (protocol 1), d: from another planet (protocol 1)}, \
             Minion newer than master: {c: 2.0.0-rc1 (protocol 1)}}"
        );
    }
}
