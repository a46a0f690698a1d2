//! Lists keys: under the headings of their states, with fingerprints, and with what is to be done about denied ones.

use std::collections::HashMap;
use std::io;

use saline_channel::PublicIdentity;
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::{KeyEntry, KeyReply, KeyState, MinionId};

use super::last_seen::LastSeenOfKeys;
use super::{KeyCommand, MASTERS, NEXT_MASTERS};
use crate::arguments::{KeyListing, Selection};
use crate::exit;
use crate::output::Format;
use crate::output::keys::{Heading, Line, render};
use crate::screen::Screen;

/// Printed instead of a fingerprint for a file that holds no key.
const NOT_READABLE: &str = "no readable key";

/// The largest number of denied keys that are explained one by one.
const MAX_EXPLAINED: usize = 10;

/// The order of states in Salt's JSON.
const JSON_ORDER: [KeyState; 4] = [
    KeyState::Pending,
    KeyState::Rejected,
    KeyState::Accepted,
    KeyState::Denied,
];

/// The headings with the keys below each.
pub(super) type Groups = Vec<(Heading, Vec<Line>)>;

/// What is printed beside the name of a key.
#[derive(Debug, Default)]
pub(super) struct Description {
    pub(super) detail: Option<String>,
    pub(super) remark: Option<String>,
}

/// The keys that are listed, and how.
pub(super) struct Shown<'k> {
    pub(super) listing: KeyListing,
    pub(super) selection: &'k Selection,
    /// Whether the master's own key is among them.
    pub(super) shows_master: bool,
    pub(super) keys: Vec<&'k KeyEntry>,
    /// The keys of APIs.
    pub(super) apis: Vec<&'k KeyEntry>,
    pub(super) last_seen: LastSeenOfKeys,
}

impl KeyCommand<'_> {
    /// Prints the keys, and warns of duplicates, files without a key and denied keys.
    pub(super) fn show(
        &self,
        screen: &mut Screen<'_>,
        shown: Shown<'_>,
        reply: &KeyReply,
    ) -> io::Result<u8> {
        let Shown {
            listing,
            selection,
            shows_master,
            keys,
            apis,
            last_seen,
        } = shown;
        let detail = |key: &[u8; 32]| match listing {
            KeyListing::Names => None,
            KeyListing::Keys => Some(PublicIdentity(*key).to_pem().trim_end().to_owned()),
            KeyListing::Fingerprints => Some(PublicIdentity(*key).fingerprint()),
        };
        let describe = |key: &KeyEntry| Description {
            detail: match key.holds_key() {
                true => detail(&key.identity),
                false => (listing != KeyListing::Names).then(|| NOT_READABLE.to_owned()),
            },
            remark: last_seen.of(key),
        };
        let mut groups = group(&keys, &selection.states, describe);
        if listing != KeyListing::Names {
            groups.retain(|(_, lines)| !lines.is_empty());
        }
        if listing == KeyListing::Fingerprints && shows_master {
            let line = |name: &str, key: &[u8; 32]| Line {
                name: name.to_owned(),
                detail: detail(key),
                remark: None,
            };
            let mut lines = vec![line(MASTERS, &reply.master)];
            lines.extend(reply.next_master.map(|next| line(NEXT_MASTERS, &next)));
            groups.insert(0, (Heading::Local, lines));
        }
        groups.extend(api_groups(&apis, listing));
        if groups.is_empty() {
            return self.no_match(screen, selection);
        }
        self.print(screen, &groups)?;
        let is_denied = |key: &KeyEntry| key.state == KeyState::Denied && key.holds_key();
        // What is to be done about a denied key is said below.
        let has_denied =
            |id: &MinionId| reply.keys.iter().any(|key| key.id == *id && is_denied(key));
        let same_key = reply.duplicates.iter().filter(|(id, _)| !has_denied(id));
        for (id, addresses) in same_key {
            screen.note(escape_line(&format!(
                "WARNING: two machines use the id {id}: {}. Give one of them another id, and delete its pki_dir \
                 and state_dir.",
                addresses.join(" and ")
            )));
        }
        for key in keys.iter().filter(|key| !key.holds_key()) {
            screen.note(format!(
                "WARNING: the file {}/{} cannot be read by the master, or holds no key: it counts as no key. Mend it, or \
                 delete it with saline-key -d {}",
                key.state.folder(),
                key.id,
                key.id
            ));
        }
        warn_of_missing(screen, &reply.missing);
        warn_of_denied(screen, &keys, reply);
        Ok(exit::GOOD)
    }

    /// Prints keys in the format that was asked for.
    pub(super) fn print(&self, screen: &mut Screen<'_>, groups: &Groups) -> io::Result<()> {
        match self.format {
            Format::Nested | Format::Key => screen.line(render(groups, self.style)),
            format => match format.render(&data(groups), self.style, false) {
                Some(text) => screen.line(text),
                None => Ok(()),
            },
        }
    }
}

/// Returns the keys of APIs under their headings, each with its fingerprint: whoever accepts one names it by that. Salt has
/// none, so there is no heading without a key.
fn api_groups(apis: &[&KeyEntry], listing: KeyListing) -> Groups {
    let line = |key: &KeyEntry| Line {
        name: key.id.to_string(),
        detail: match listing {
            KeyListing::Keys if key.holds_key() => {
                let pem = PublicIdentity(key.identity).to_pem();
                Some(pem.trim_end().to_owned())
            }
            KeyListing::Keys | KeyListing::Names | KeyListing::Fingerprints => fingerprint(key),
        },
        remark: None,
    };
    let under = |state: KeyState, heading: Heading| {
        let keys = apis.iter().filter(|key| key.state == state);
        let lines: Vec<Line> = keys.map(|key| line(key)).collect();
        (!lines.is_empty()).then_some((heading, lines))
    };
    let groups = [
        under(KeyState::Accepted, Heading::Apis),
        under(KeyState::Pending, Heading::PendingApis),
    ];
    groups.into_iter().flatten().collect()
}

/// Says that the accepted keys of these minions are missing, if there are any.
fn warn_of_missing(screen: &mut Screen<'_>, missing: &[MinionId]) {
    if let [_, ..] = missing {
        screen.note(format!(
            "WARNING: the accepted keys of all {} minions are missing, as when their folder is not mounted: the minions \
             are refused, and their sessions end within a minute. Put the files back, or revoke them with saline-key -D",
            missing.len()
        ));
    }
}

/// Says what denied keys are, and how to let their machines in. Only denied keys of ids that have an accepted key are
/// told: strangers choose the ids of others.
fn warn_of_denied(screen: &mut Screen<'_>, keys: &[&KeyEntry], reply: &KeyReply) {
    let accepted: HashMap<&MinionId, &KeyEntry> = reply
        .keys
        .iter()
        .filter(|key| key.state == KeyState::Accepted && key.holds_key())
        .map(|key| (&key.id, key))
        .collect();
    let told: Vec<(&KeyEntry, &KeyEntry)> = keys
        .iter()
        .filter(|key| key.state == KeyState::Denied && key.holds_key())
        .filter_map(|key| Some((*key, *accepted.get(&key.id)?)))
        .collect();
    if told.len() > MAX_EXPLAINED {
        return screen.note(format!(
            "WARNING: {} denied keys use ids of accepted minions: saline-key -f ID shows both keys of one and says what to \
             do, saline-key -D --only-denied deletes the denied ones.",
            told.len()
        ));
    }
    for (denied, accepted) in told {
        explain_denied(screen, denied, accepted, reply);
    }
}

/// Says what a denied key is, and how to let its machine in.
fn explain_denied(
    screen: &mut Screen<'_>,
    denied: &KeyEntry,
    accepted: &KeyEntry,
    reply: &KeyReply,
) {
    let id = &denied.id;
    let places = reply.duplicates.iter().find(|(other, _)| other == id);
    let places = places.map_or_else(String::new, |(_, addresses)| {
        escape_line(&format!(" The two are at {}.", addresses.join(" and "))).into_owned()
    });
    let [theirs, known] = [denied, accepted].map(|key| PublicIdentity(key.identity).fingerprint());
    screen.note(format!(
        "WARNING: a second machine uses the id {id}. Its denied key has the fingerprint {theirs}, the accepted key has \
         {known}.{places} If the denied one is right, as after a reinstallation, let it in with saline-key -a {id} \
         --include-denied --finger {theirs}, which replaces the other key; otherwise give that machine another id, and \
         delete its key with saline-key -d {id} --only-denied."
    ));
}

/// Returns the fingerprint of a key.
pub(super) fn fingerprint(key: &KeyEntry) -> Option<String> {
    Some(match key.holds_key() {
        true => PublicIdentity(key.identity).fingerprint(),
        false => NOT_READABLE.to_owned(),
    })
}

/// Groups keys under the headings of `states`.
pub(super) fn group(
    keys: &[&KeyEntry],
    states: &[KeyState],
    describe: impl Fn(&KeyEntry) -> Description,
) -> Groups {
    states
        .iter()
        .map(|state| {
            let lines = keys
                .iter()
                .filter(|key| key.state == *state)
                .map(|key| {
                    let Description { detail, remark } = describe(key);
                    Line {
                        name: key.id.to_string(),
                        detail,
                        remark,
                    }
                })
                .collect();
            (Heading::State(*state), lines)
        })
        .collect()
}

/// Returns the groups as data: names, or names with their details.
fn data(groups: &Groups) -> Value {
    let order = std::iter::once(Heading::Local)
        .chain(JSON_ORDER.map(Heading::State))
        .chain([Heading::Apis, Heading::PendingApis]);
    Value::Map(
        order
            .filter_map(|heading| groups.iter().find(|(found, _)| *found == heading))
            .map(|(heading, lines)| {
                let detailed = lines.iter().any(|line| line.detail.is_some());
                let value = if detailed {
                    Value::map(lines.iter().map(|line| {
                        let detail = line.detail.as_deref().unwrap_or_default();
                        (line.name.as_str(), Value::from(detail))
                    }))
                } else {
                    Value::texts(lines.iter().map(|line| line.name.as_str()))
                };
                (heading.folder().to_owned(), value)
            })
            .collect(),
    )
}
