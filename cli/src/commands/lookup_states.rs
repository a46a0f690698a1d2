//! The minions that have not returned a job, which `saline-run jobs.lookup_jid` names beside the returns.

use std::collections::HashSet;

use saline_client::{Absence, Client, ClientError, Contact};
use saline_data::Value;
use saline_messages::{Arguments, Jid, MinionId, MinionJobState};

use crate::absence;
use crate::screen::Screen;

/// The function whose return says nothing about minions that have not returned.
const LOOKUP_JID: &str = "jobs.lookup_jid";

/// The state of a minion in a job, and the contact of the master with the minion.
type State = (MinionId, MinionJobState, Contact);

/// The states of the minions of a job that is looked up.
#[derive(Debug)]
pub(crate) struct LookedUpStates {
    jid: Jid,
    states: Vec<State>,
}

impl LookedUpStates {
    /// Reads the states if `function` looks a job up. Read before the returns are: a minion whose return is stored
    /// meanwhile is not called absent.
    ///
    /// # Errors
    /// As for every request; that there is no such job is none, since the runner says so.
    pub(crate) async fn read(
        client: &Client,
        function: &str,
        arguments: &Arguments,
    ) -> Result<Option<Self>, ClientError> {
        let named = arguments.named.iter().find(|(name, _)| name == "jid");
        let jid = named.map(|(_, jid)| jid).or(arguments.positional.first());
        let jid = jid.and_then(Value::as_str).map(Jid::parse);
        let Some(Ok(jid)) = jid.filter(|_| function == LOOKUP_JID) else {
            return Ok(None);
        };
        match states(client, &jid).await {
            Ok(states) => Ok(Some(Self { jid, states })),
            Err(ClientError::NoSuchJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Prints a line for each minion that has not returned.
    pub(crate) fn tell_absent(&self, screen: &mut Screen<'_>, returned: &Value) {
        let Value::Map(returns) = returned else {
            return;
        };
        let names: HashSet<&str> = returns.iter().map(|(minion, _)| minion.as_str()).collect();
        for (minion, state, contact) in &self.states {
            let absence = Absence::of(*state, *contact);
            let Some(why) = absence.filter(|_| !names.contains(minion.as_str())) else {
                continue;
            };
            match why {
                Absence::Declined if !names.is_empty() => {}
                Absence::Running => screen.note(format!(
                    "{minion}: still running (the job was published at {})",
                    published_at(&self.jid)
                )),
                why => screen.note(format!("{minion}: {}", absence::line(why))),
            }
        }
    }
}

/// Returns when a job was published, which its jid says.
fn published_at(jid: &Jid) -> String {
    let jid = jid.as_str();
    let part = |from: usize, to: usize| jid.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{} {}:{}:{} UTC",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14)
    )
}

/// Reads the states of all minions of a job, by minion.
pub(super) async fn states(client: &Client, jid: &Jid) -> Result<Vec<State>, ClientError> {
    let mut states: Vec<State> = Vec::new();
    loop {
        let after = states.last().map(|(minion, ..)| minion.clone());
        let page = client.job_states(jid, after).await?;
        let empty = page.states.is_empty();
        let silent: HashSet<MinionId> = page.silent.into_iter().collect();
        let disputed: HashSet<MinionId> = page.disputed.into_iter().collect();
        let planned: HashSet<MinionId> = page.planned.into_iter().map(|(id, _)| id).collect();
        states.extend(page.states.into_iter().map(|(minion, state)| {
            let contact = match &minion {
                minion if disputed.contains(minion) => Contact::Disputed,
                minion if planned.contains(minion) => Contact::PlannedEnd,
                minion if silent.contains(minion) => Contact::Silent,
                _ => Contact::Present,
            };
            (minion, state, contact)
        }));
        if !page.more || empty {
            return Ok(states);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::screen::Printed;

    #[test]
    fn those_that_have_not_returned_are_named() {
        let told = |returned: &[&str]| {
            let state = |id: &str, state| (MinionId::parse(id).unwrap(), state, Contact::Present);
            let jid = Jid::parse("20261121091409931549").unwrap();
            let states = vec![
                state("m1", MinionJobState::Returned),
                state("m2", MinionJobState::NotConnected),
                state("m3", MinionJobState::Declined),
                state("m4", MinionJobState::Running),
            ];
            let states = LookedUpStates { jid, states };
            let returned = Value::map(returned.iter().map(|id| (*id, Value::Bool(true))));
            let mut printed = Printed::default();
            states.tell_absent(&mut printed.screen(&[]), &returned);
            String::from_utf8(printed.err).unwrap()
        };
        insta::assert_snapshot!(told(&["m1"]), @"
        m2: Minion did not return. [Not connected]
        m4: still running (the job was published at 2026-11-21 09:14:09 UTC)
        ");
        insta::assert_snapshot!(told(&[]), @"
        m2: Minion did not return. [Not connected]
        m3: Minion did not return. [Declined]
        m4: still running (the job was published at 2026-11-21 09:14:09 UTC)
        ");
    }
}
