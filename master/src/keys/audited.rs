//! What the audit file says of acts on keys.

use saline_channel::PublicIdentity;
use saline_config::MasterConfig;
use saline_messages::{ApiKeyAction, KeyAction, KeyEntry, KeyRequest, MinionId};
use saline_protocol::transport::Clock;

use crate::audit::{AuditFile, Details, Outcome, Record, explain};
use crate::authorize::{Action, Principal};

/// The largest number of keys that one line names.
const NAMED_KEYS: usize = 16;

/// Returns the minions whose keys a request changes.
pub(crate) fn named_minions(request: &KeyRequest) -> Vec<MinionId> {
    match request {
        KeyRequest::Act { keys, .. } => keys.iter().map(|key| key.id.clone()).collect(),
        // Those of APIs stand in the subject.
        KeyRequest::List | KeyRequest::RotateIdentity | KeyRequest::ActOnApis { .. } => Vec::new(),
    }
}

/// Returns the subject in the audit line of a request.
pub(crate) fn describe<'m>(request: &KeyRequest, minions: &'m [MinionId]) -> Details<'m> {
    match request {
        KeyRequest::Act {
            request_id,
            action,
            keys,
        } => {
            let word = match action {
                KeyAction::Accept => "accept",
                KeyAction::Reject => "reject",
                KeyAction::Delete => "delete",
            };
            Details {
                minions: Some(minions),
                subject: Some(name_keys(word, "minion", keys)),
                request: Some(*request_id),
                ..Details::default()
            }
        }
        KeyRequest::ActOnApis {
            request_id,
            action,
            keys,
        } => {
            let word = match action {
                ApiKeyAction::Accept => "accept",
                ApiKeyAction::Delete => "delete",
            };
            Details {
                subject: Some(name_keys(word, "API", keys)),
                request: Some(*request_id),
                ..Details::default()
            }
        }
        KeyRequest::List | KeyRequest::RotateIdentity => Details::default(),
    }
}

/// Returns the subject of an act on keys: each with its owner and its fingerprint, since one owner may have presented several keys.
fn name_keys(act: &str, kind: &str, keys: &[KeyEntry]) -> String {
    let named = keys.iter().take(NAMED_KEYS).map(|key| {
        let fingerprint = PublicIdentity(key.identity).fingerprint();
        format!("{kind} {}, fingerprint {fingerprint}", key.id)
    });
    let mut subject: Vec<String> = std::iter::once(act.to_owned()).chain(named).collect();
    if keys.len() > NAMED_KEYS {
        subject.push(format!("and {} more", keys.len() - NAMED_KEYS));
    }
    subject.join(", ")
}

/// Notes a request that is carried out without a master, if it changes something. Blocks on the disk.
/// The request is carried out also when it cannot be noted, since whoever may write the keys is root to the master.
///
/// # Errors
/// Why the audit file cannot be written.
pub(super) fn note_offline(config: &MasterConfig, request: &KeyRequest) -> Result<(), String> {
    if *request == KeyRequest::List {
        return Ok(());
    }
    let principal = match saline_private_files::is_root() {
        true => Principal::LocalRoot,
        false => Principal::MasterUser,
    };
    let minions = named_minions(request);
    let details = describe(request, &minions);
    let subject: Vec<&str> = details.subject.as_deref().into_iter().collect();
    let record = Record {
        principal: principal.to_string(),
        action: Action::of_keys(request).name(),
        details: Details {
            subject: Some([&subject[..], &["without a master"]].concat().join(", ")),
            ..details
        },
        outcome: Outcome::Allowed {
            rule: "who may write the keys",
        },
        goes_on_without: true,
    };
    let path = config.audit_file();
    let mut file = AuditFile::new(path.clone());
    let line = record.line(Clock.wall());
    let noted = file
        .append(&line, config.audit_max_bytes)
        .and_then(|appended| appended.sync());
    noted.map_err(|error| explain(&path, &error))
}
