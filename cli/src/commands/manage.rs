//! `manage.*`: the minions that are present, in the shapes of Salt's runner.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use saline_client::{Client, ClientError};
use saline_protocol::message::{
    FleetVersions, KeyRequest, KeyState, MinionId, TransportUse, Value,
};

/// The accepted minions that are present, and those that are not.
///
/// A minion is present while its session lives: it spoke within two heartbeats. The master knows that
/// by itself, so nothing is sent to minions.
#[derive(Debug)]
pub(crate) struct Presence {
    up: BTreeSet<MinionId>,
    down: BTreeSet<MinionId>,
}

impl Presence {
    /// Asks the master.
    pub(crate) async fn ask(client: &Client) -> Result<Self, ClientError> {
        // Keys first: a minion that is accepted meanwhile then shows as present, not as down.
        let keys = client.keys(KeyRequest::List).await?.keys;
        let accepted = keys
            .into_iter()
            // A file without a key is no minion.
            .filter(|key| key.state == KeyState::Accepted && key.holds_key());
        let accepted = accepted.map(|key| key.id);
        let present = client.versions().await?.minions;
        Ok(Self::of(accepted, present.into_iter().map(|(id, _)| id)))
    }

    fn of(
        accepted: impl Iterator<Item = MinionId>,
        present: impl Iterator<Item = MinionId>,
    ) -> Self {
        let up: BTreeSet<MinionId> = present.collect();
        let down = accepted.filter(|id| !up.contains(id)).collect();
        Self { up, down }
    }

    /// Returns the present minions, as `manage.up` lists them.
    pub(crate) fn up(&self) -> Value {
        list(&self.up)
    }

    /// Returns the accepted minions that are not present, as `manage.down` lists them.
    pub(crate) fn down(&self) -> Value {
        list(&self.down)
    }

    /// Returns both lists, as `manage.status` shows them.
    pub(crate) fn status(&self) -> Value {
        Value::map([("up", self.up()), ("down", self.down())])
    }
}

fn list(minions: &BTreeSet<MinionId>) -> Value {
    Value::texts(minions.iter().map(MinionId::as_str))
}

/// Returns the versions of the master and of the minions that are present, as Salt's `manage.versions`
/// groups them.
pub(crate) async fn versions(client: &Client) -> Result<Value, ClientError> {
    Ok(grouped(client.versions().await?))
}

/// Returns the transports that the master serves, each with the minions that are connected over it, so that an
/// operator who moves a fleet sees who is left.
pub(crate) async fn transports(client: &Client) -> Result<Value, ClientError> {
    Ok(by_transport(&client.transports().await?))
}

fn by_transport(transports: &[TransportUse]) -> Value {
    let entry = |used: &TransportUse| {
        let minions = used.minions.iter().map(MinionId::as_str);
        (used.transport.clone(), Value::texts(minions))
    };
    Value::Map(transports.iter().map(entry).collect())
}

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
    use saline_protocol::message::{MinionId, PeerVersion, ProtocolVersions};

    use super::*;
    use crate::output::{Format, Style};

    #[test]
    fn accepted_minions_are_up_or_down() {
        let ids = |names: &[&str]| {
            let ids: Vec<_> = names
                .iter()
                .map(|id| MinionId::parse(id).unwrap())
                .collect();
            ids.into_iter()
        };
        let shown = |accepted: &[&str], present: &[&str], format: Format| {
            let status = Presence::of(ids(accepted), ids(present)).status();
            let text = format.render(&status, Style::default(), false);
            String::from_utf8(text.unwrap()).unwrap()
        };
        // c was accepted after the keys were read.
        let (accepted, present) = (["d", "b", "a"], ["c", "a"]);
        insta::assert_snapshot!(shown(&accepted, &present, Format::Nested), @"
        down:
            - b
            - d
        up:
            - a
            - c
        ");
        insta::assert_snapshot!(shown(&accepted, &present, Format::Json), @r#"
        {
            "up": [
                "a",
                "c"
            ],
            "down": [
                "b",
                "d"
            ]
        }
        "#);
        insta::assert_snapshot!(shown(&accepted, &present, Format::Raw), @"{'up': ['a', 'c'], 'down': ['b', 'd']}");
        insta::assert_snapshot!(shown(&["a"], &["a"], Format::Nested), @"
        down:
        up:
            - a
        ");
    }

    #[test]
    fn a_transport_that_nobody_uses_is_listed_too() {
        let used = |transport: &str, minions: &[&str]| TransportUse {
            transport: transport.to_owned(),
            endpoint: format!("{transport}://192.0.2.1:4506"),
            minions: minions
                .iter()
                .map(|id| MinionId::parse(id).unwrap())
                .collect(),
        };
        let value = by_transport(&[used("zeromq", &[]), used("tcp", &["a", "b"])]);
        let shown = |format: Format| {
            let text = format.render(&value, Style::default(), false);
            String::from_utf8(text.unwrap()).unwrap()
        };
        insta::assert_snapshot!(shown(Format::Nested), @"
        zeromq:
        tcp:
            - a
            - b
        ");
        insta::assert_snapshot!(shown(Format::Raw), @"{'zeromq': [], 'tcp': ['a', 'b']}");
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
        let Value::Map(groups) = value else {
            panic!("a mapping");
        };
        let shown: Vec<_> = groups
            .iter()
            .map(|(name, members)| match members {
                Value::Map(members) => format!(
                    "{name}: {}",
                    members
                        .iter()
                        .map(|(id, text)| format!("{id} {}", text.as_str().unwrap()))
                        .collect::<Vec<_>>()
                        .join(", ")
                ),
                master => format!("{name}: {}", master.as_str().unwrap()),
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r"
        Master: 1.10.0
        Up to date: a 1.10.0 (protocol 1)
        Minion requires update: b 1.9.12 (protocol 1), d from another planet (protocol 1)
        Minion newer than master: c 2.0.0-rc1 (protocol 1)
        ");
    }
}
