//! What the audit file says of acts on keys.

use saline_config::MasterConfig;
use saline_messages::{KeyAction, KeyRequest, MinionId};
use saline_protocol::transport::Clock;

use crate::audit::{AuditFile, Details, Outcome, Record};
use crate::authorize::{Action, Principal};

/// Returns what a request does to keys, in a word.
pub(crate) fn describe_act(request: &KeyRequest) -> String {
    let word = match request {
        KeyRequest::List => "list",
        KeyRequest::Act { action, .. } => match action {
            KeyAction::Accept => "accept",
            KeyAction::Reject => "reject",
            KeyAction::Delete => "delete",
        },
    };
    word.to_owned()
}

/// Notes a request that is carried out without a master, if it changes something. Blocks on the disk.
/// That it cannot be noted is logged, since whoever may write the keys is root to the master.
pub(super) fn note_offline(config: &MasterConfig, request: &KeyRequest) {
    let KeyRequest::Act {
        request_id, keys, ..
    } = request
    else {
        return;
    };
    let principal = match saline_private_files::is_root() {
        true => Principal::LocalRoot,
        false => Principal::MasterUser,
    };
    let minions: Vec<MinionId> = keys.iter().map(|key| key.id.clone()).collect();
    let record = Record {
        principal: principal.to_string(),
        action: Action::ChangeKeys.name(),
        details: Details {
            minions: Some(&minions),
            subject: Some(format!("{}, without a master", describe_act(request))),
            request: Some(*request_id),
            ..Details::default()
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
    if let Err(error) = noted {
        tracing::error!(
            "the audit file {} cannot be written: {error}",
            path.display()
        );
    }
}
