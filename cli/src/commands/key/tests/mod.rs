//! What `saline-key` prints and asks of the master.

mod apis;
mod changing;
mod identity;
mod listing;

use std::cell::RefCell;

use saline_config::MasterConfig;
use saline_messages::{KeyReply, MinionId};

use super::change::PORTION;
use super::*;
use crate::screen::Printed;

fn entry(id: &str, state: KeyState) -> KeyEntry {
    KeyEntry {
        id: MinionId::parse(id).unwrap(),
        state,
        identity: [7; 32],
    }
}

/// Carries out `line` with `answers`, on a store without a master. Returns what is printed.
async fn carried_out(line: &str, answers: &[&str], act: &Offline<'_>) -> String {
    let arguments = KeyArguments::read(line.split(' ').map(OsString::from)).unwrap();
    let config = MasterConfig::default();
    let store = KeyStore::Offline {
        config: &config,
        act,
    };
    let mut printed = Printed::default();
    let mut screen = printed.screen(answers);
    let command = KeyCommand {
        store: &store,
        format: match arguments.quiet {
            true => Format::Quiet,
            false => arguments.output.format(),
        },
        style: Style::default(),
        yes: arguments.yes,
        shows_last_seen: false,
    };
    let code = command
        .carry_out(&mut screen, arguments.verb())
        .await
        .unwrap();
    format!("{}--- exit {code}", printed.shown())
}

/// Types `line` with `answers`, on a store without a master; `gone` has changed meanwhile.
async fn typed(line: &str, answers: &[&str], gone: &str) -> (String, Vec<KeyRequest>) {
    let asked = RefCell::new(Vec::new());
    let act = |_: &MasterConfig, request: KeyRequest| {
        asked.borrow_mut().push(request.clone());
        let keys = match request {
            KeyRequest::List => vec![
                entry("m1", KeyState::Pending),
                entry("m0", KeyState::Pending),
                entry("ok", KeyState::Accepted),
                entry("bad", KeyState::Rejected),
                entry("ok", KeyState::Denied),
            ],
            KeyRequest::RotateIdentity | KeyRequest::ActOnApis { .. } => Vec::new(),
            KeyRequest::Act { action, keys, .. } => keys
                .into_iter()
                .filter(|key| key.id.as_str() != gone)
                .map(|key| KeyEntry {
                    state: match action {
                        KeyAction::Accept => KeyState::Accepted,
                        KeyAction::Reject => KeyState::Rejected,
                        KeyAction::Delete => key.state,
                    },
                    ..key
                })
                .collect(),
        };
        Ok(reply(keys))
    };
    let shown = carried_out(line, answers, &act).await;
    let asked = asked.into_inner();
    (shown, asked)
}

async fn shown(line: &str, answers: &[&str]) -> String {
    typed(line, answers, "").await.0
}

/// The reply of a master with these keys, about which there is nothing to tell.
fn reply(keys: Vec<KeyEntry>) -> KeyReply {
    KeyReply {
        keys,
        master: [9; 32],
        next_master: None,
        duplicates: Vec::new(),
        missing: Vec::new(),
        apis: Vec::new(),
        warnings: Vec::new(),
    }
}

/// A key of an id, whose bytes are all this number.
fn numbered(id: &str, state: KeyState, number: u8) -> KeyEntry {
    KeyEntry {
        identity: [number; 32],
        ..entry(id, state)
    }
}

/// Types `line` with -y on a store with these keys, and with the keys of these minions missing. Returns what is printed,
/// and the keys that it acts on.
async fn acted(line: &str, keys: &[KeyEntry], missing: &[&str]) -> (String, Vec<KeyEntry>) {
    let asked = RefCell::new(Vec::new());
    let act = |_: &MasterConfig, request: KeyRequest| {
        let keys = match request {
            KeyRequest::List => keys.to_vec(),
            KeyRequest::RotateIdentity | KeyRequest::ActOnApis { .. } => Vec::new(),
            KeyRequest::Act { keys, .. } => {
                asked.borrow_mut().extend(keys.iter().cloned());
                keys
            }
        };
        let missing = missing.iter().map(|id| MinionId::parse(id).unwrap());
        Ok(KeyReply {
            missing: missing.collect(),
            ..reply(keys)
        })
    };
    let shown = carried_out(line, &[], &act).await;
    (shown, asked.into_inner())
}
