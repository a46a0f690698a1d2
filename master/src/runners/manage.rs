//! `manage`: the minions that are present, and those that are not.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use saline_data::Value;
use saline_messages::{FleetVersions, MinionId};

use super::error::RunnerError;
use super::function::{Function, Returned};
use super::run::Run;
use crate::keys::KeyStore;

type Result<T, E = RunnerError> = std::result::Result<T, E>;

// Salt's `up` and `down` ask the minions, the others the presence that the master knows. Here all of them tell the
// latter.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("alived", UP, |run, _| Box::pin(up(run))),
    Function::new("down", DOWN, |run, _| Box::pin(down(run))),
    Function::new("not_alived", DOWN, |run, _| Box::pin(down(run))),
    Function::new("not_present", DOWN, |run, _| Box::pin(down(run))),
    Function::new("present", UP, |run, _| Box::pin(up(run))),
    Function::new("status", STATUS, |run, _| Box::pin(status(run))),
    Function::new("transports", TRANSPORTS, |run, _| {
        Box::pin(async move { Ok(transports(run).into()) })
    }),
    Function::new("up", UP, |run, _| Box::pin(up(run))),
    Function::new("versions", VERSIONS, |run, _| Box::pin(versions(run))),
];

const UP: &str = "
Return the minions that are present: those with a session that spoke within two heartbeats. The master knows
that by itself; nothing is sent to minions.

CLI Example:

.. code-block:: bash

    saline-run manage.up
";

const DOWN: &str = "
Return the accepted minions that are not present. The master knows that by itself; nothing is sent to minions.

CLI Example:

.. code-block:: bash

    saline-run manage.down
";

const STATUS: &str = "
Return the minions that are present, and the accepted ones that are not.

CLI Example:

.. code-block:: bash

    saline-run manage.status
";

const TRANSPORTS: &str = "
Return the transports that the master serves, each with the minions that are connected over it, so that an operator
who moves a fleet sees who is left.

CLI Example:

.. code-block:: bash

    saline-run manage.transports
";

const VERSIONS: &str = "
Return the version of the master, and those of the minions that are present, grouped by whether they are older.

CLI Example:

.. code-block:: bash

    saline-run manage.versions
";

/// The accepted minions that are present, and those that are not.
#[derive(Debug)]
struct Presence {
    up: BTreeSet<MinionId>,
    down: BTreeSet<MinionId>,
}

impl Presence {
    async fn look(run: &Run) -> Result<Self> {
        // Keys first: a minion that is accepted meanwhile then shows as present, not as down.
        let accepted = match run.parts.keys.with_minions(KeyStore::accepted_ids).await {
            Some(Ok(accepted)) => accepted,
            Some(Err(error)) => return Err(RunnerError::Failed(error.to_string())),
            None => return Err(RunnerError::Failed("the key store failed".to_owned())),
        };
        let present = run.parts.sessions.all_alive();
        let present = present
            .iter()
            .filter_map(|session| session.principal.minion());
        Ok(Self::of(accepted.iter().cloned(), present.cloned()))
    }

    fn of(
        accepted: impl Iterator<Item = MinionId>,
        present: impl Iterator<Item = MinionId>,
    ) -> Self {
        let up: BTreeSet<MinionId> = present.collect();
        let down = accepted.filter(|id| !up.contains(id)).collect();
        Self { up, down }
    }

    fn status(&self) -> Value {
        Value::map([("up", list(&self.up)), ("down", list(&self.down))])
    }
}

fn list(minions: &BTreeSet<MinionId>) -> Value {
    Value::texts(minions.iter().map(MinionId::as_str))
}

async fn up(run: &Run) -> Result<Returned> {
    Ok(list(&Presence::look(run).await?.up).into())
}

async fn down(run: &Run) -> Result<Returned> {
    Ok(list(&Presence::look(run).await?.down).into())
}

async fn status(run: &Run) -> Result<Returned> {
    Ok(Presence::look(run).await?.status().into())
}

fn transports(run: &Run) -> Value {
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

async fn versions(run: &Run) -> Result<Returned> {
    let fleet = run.parts.sessions.fleet_versions(run.parts.versions);
    Ok(grouped(fleet).into())
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
        let presence = Presence::of(ids(&["d", "b", "a"]), ids(&["c", "a"]));
        assert_eq!(shown(&presence.status()), "{up: [a, c], down: [b, d]}");
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
