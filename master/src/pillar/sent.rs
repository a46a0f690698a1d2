//! What a minion is sent: its encoded pillar with the errors, of at most [`MAX_PILLAR`] bytes.

use saline_data::{Packed, Value};
use saline_messages::{MAX_PILLAR, MAX_PILLAR_ERRORS, MinionPillar, Outgoing};
use saline_pillar::Pillar;

/// The most bytes of an error that a minion is told.
const MAX_ERROR: usize = 1000;

/// Returns the entries of a pillar, packed. A pillar that is too large to be sent gets an error.
pub(super) fn pack(pillar: &mut Pillar) -> Packed {
    let entries = Value::Map(std::mem::take(&mut pillar.entries));
    let packed = Packed::pack(&entries);
    if let Value::Map(entries) = entries {
        pillar.entries = entries;
    }
    let sent = MinionPillar {
        entries: Some(packed),
        errors: Vec::new(),
    };
    let bytes = sent.to_bytes().len();
    if bytes > MAX_PILLAR {
        pillar.errors.push(format!(
            "the pillar has {bytes} bytes, and a pillar may have {MAX_PILLAR}: move large values into files that minions fetch \
             (file_roots)"
        ));
    }
    sent.entries.unwrap_or_else(|| Packed::pack(&Value::Null))
}

/// Returns what a minion is sent. Where entries have no room beside the errors, the minion keeps those that it has.
pub(super) fn encode(entries: Option<Packed>, errors: Vec<String>) -> Outgoing {
    let mut sent = MinionPillar {
        entries,
        errors: told(errors),
    };
    let mut bytes = sent.to_bytes();
    if bytes.len() > MAX_PILLAR {
        sent.entries = None;
        bytes = sent.to_bytes();
    }
    Outgoing::new(bytes)
}

/// Returns the errors that a minion is told.
fn told(mut errors: Vec<String>) -> Vec<String> {
    if errors.len() > MAX_PILLAR_ERRORS {
        let left = errors.len() - (MAX_PILLAR_ERRORS - 1);
        errors.truncate(MAX_PILLAR_ERRORS - 1);
        errors.push(format!("{left} more errors"));
    }
    for error in &mut errors {
        if error.len() > MAX_ERROR {
            let end = (0..=MAX_ERROR).rev().find(|at| error.is_char_boundary(*at));
            error.truncate(end.unwrap_or_default());
            error.push_str("...");
        }
    }
    errors
}
