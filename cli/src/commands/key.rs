//! `saline-key`: the keys of minions.

mod generate;
mod last_seen;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;

use saline_channel::PublicIdentity;
use saline_data::Value;
use saline_data::printable::escape_line;
use saline_messages::{KeyAction, KeyEntry, KeyReply, KeyRequest, KeyState, MinionId, RequestId};
use saline_protocol::transport::Registry;

use self::last_seen::LastSeenOfKeys;
use super::about::{self, Role};
use super::failed;
use super::keystore::{KeyStore, Offline};
use crate::arguments::{KeyArguments, KeyListing, KeyVerb, Selection};
use crate::glob::Glob;
use crate::output::keys::{Heading, Line, render};
use crate::output::{Format, Style};
use crate::screen::Screen;
use crate::{exit, process_user, settings};

/// The largest number of keys in one request.
const PORTION: usize = 250;

/// The name under which the master's own key is shown; the name of its file at minions.
const MASTERS: &str = "master.pub";

/// Printed instead of a fingerprint for a file that holds no key.
const NOT_READABLE: &str = "no readable key";

/// The order of states in Salt's JSON.
const JSON_ORDER: [KeyState; 4] = [
    KeyState::Pending,
    KeyState::Rejected,
    KeyState::Accepted,
    KeyState::Denied,
];

/// Carries out the command line of `saline-key`. Returns the exit code.
///
/// # Errors
/// When the output cannot be written.
pub(crate) async fn key(
    screen: &mut Screen<'_>,
    words: impl IntoIterator<Item = OsString>,
    registry: Registry,
    offline: &Offline<'_>,
) -> io::Result<u8> {
    let arguments = match KeyArguments::read(words) {
        Ok(arguments) => arguments,
        Err(refused) => return refused.print(screen),
    };
    if let Some(asked) = arguments.about.asked() {
        return about::print(
            screen,
            asked,
            ("saline-key", Role::Master),
            (&arguments.common(), &arguments.output),
            &registry,
        );
    }
    if let Some((id, folder, user)) = arguments.generated() {
        if let Some(user) = user
            && let Err(line) = process_user::switch_to(user)
        {
            screen.note(line);
            return Ok(exit::FAILED);
        }
        return generate::generate(screen, id, folder);
    }
    let prepared = settings::prepare(screen, &arguments.common(), &arguments.output, &registry);
    let config = match prepared {
        Ok(config) => config,
        Err(line) => {
            screen.note(line);
            return Ok(exit::FAILED);
        }
    };
    let store = match KeyStore::open(&config, &registry, offline).await {
        Ok(store) => store,
        Err(error) => return Ok(failed(screen, &error)),
    };
    let format = match arguments.quiet {
        true => Format::Quiet,
        false => arguments.output.format(),
    };
    let command = KeyCommand {
        store: &store,
        format,
        style: arguments.output.style(screen),
        yes: arguments.yes,
        shows_last_seen: arguments.verbose || arguments.output.is_on_terminal(screen),
    };
    let code = command.carry_out(screen, arguments.verb()).await;
    store.close().await;
    code
}

/// The answer to the question whether keys are to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Change them.
    Yes,
    /// Leave them alone.
    No,
    /// Nobody is there to answer.
    Nobody,
}

/// The command, with its key store and its options.
struct KeyCommand<'a> {
    store: &'a KeyStore<'a>,
    format: Format,
    style: Style,
    yes: bool,
    /// Whether keys are listed with where their minions are.
    shows_last_seen: bool,
}

type Groups = Vec<(Heading, Vec<Line>)>;

/// What is printed beside the name of a key.
#[derive(Debug, Default)]
struct Description {
    detail: Option<String>,
    remark: Option<String>,
}

/// The keys that are listed, and how.
struct Shown<'k> {
    listing: KeyListing,
    selection: &'k Selection,
    /// Whether the master's own key is among them.
    shows_master: bool,
    keys: Vec<&'k KeyEntry>,
    last_seen: LastSeenOfKeys,
}

impl KeyCommand<'_> {
    async fn carry_out(&self, screen: &mut Screen<'_>, verb: KeyVerb) -> io::Result<u8> {
        let (KeyVerb::Show(_, selection) | KeyVerb::Act(_, selection)) = &verb else {
            return self.rotate_group_key(screen).await;
        };
        let glob = match Glob::list(&selection.glob) {
            Ok(glob) => glob,
            Err(why) => {
                complain(screen, &why);
                return Ok(exit::USAGE);
            }
        };
        let reply = match self.store.ask(KeyRequest::List).await {
            Ok(reply) => reply,
            Err(why) => return Ok(complain(screen, &why)),
        };
        match verb {
            KeyVerb::Show(listing, selection) => {
                let keys = matching(&reply.keys, &selection, &glob);
                let last_seen = match self.shows_last_seen && !self.format.is_for_programs() {
                    true => LastSeenOfKeys::read(self.store, &keys).await,
                    false => LastSeenOfKeys::default(),
                };
                let shown = Shown {
                    listing,
                    selection: &selection,
                    shows_master: glob.matches(MASTERS),
                    keys,
                    last_seen,
                };
                self.show(screen, shown, &reply)
            }
            KeyVerb::Act(action, selection) => {
                let mut keys = matching(&reply.keys, &selection, &glob);
                keys.retain(|key| key.holds_key() || action == KeyAction::Delete);
                if keys.is_empty() {
                    return self.no_match(screen, &selection);
                }
                self.act(screen, action, keys).await
            }
            KeyVerb::RotateGroupKey => self.rotate_group_key(screen).await,
        }
    }

    async fn rotate_group_key(&self, screen: &mut Screen<'_>) -> io::Result<u8> {
        match self.store.rotate_group_key().await {
            Ok(()) => {
                self.say(
                    screen,
                    "The group key was rotated, and the minions that are present were sent the new one.",
                )?;
                Ok(exit::GOOD)
            }
            Err(why) => Ok(complain(screen, &why)),
        }
    }

    fn show(&self, screen: &mut Screen<'_>, shown: Shown<'_>, reply: &KeyReply) -> io::Result<u8> {
        let Shown {
            listing,
            selection,
            shows_master,
            keys,
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
            let line = Line {
                name: MASTERS.to_owned(),
                detail: detail(&reply.master),
                remark: None,
            };
            groups.insert(0, (Heading::Local, vec![line]));
        }
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
        for denied in keys.iter().filter(|key| is_denied(key)) {
            self.explain_denied(screen, denied, reply);
        }
        Ok(exit::GOOD)
    }

    /// Says what a denied key is, and how to let its machine in.
    fn explain_denied(&self, screen: &mut Screen<'_>, denied: &KeyEntry, reply: &KeyReply) {
        let id = &denied.id;
        let places = reply.duplicates.iter().find(|(other, _)| other == id);
        let places = places.map_or_else(String::new, |(_, addresses)| {
            escape_line(&format!(" The two are at {}.", addresses.join(" and "))).into_owned()
        });
        let known = reply.keys.iter().find(|key| {
            key.id == *id
                && key.holds_key()
                && matches!(key.state, KeyState::Accepted | KeyState::Pending)
        });
        let theirs = PublicIdentity(denied.identity).fingerprint();
        screen.note(match known {
            Some(known) => format!(
                "WARNING: a second machine uses the id {id}. Its denied key has the fingerprint {theirs}, the {} key \
                 has {}.{places} If the denied one is right, as after a reinstallation, let it in with saline-key -a {id} \
                 --include-denied, which replaces the other key; otherwise give that machine another id.",
                adjective(known.state),
                PublicIdentity(known.identity).fingerprint()
            ),
            None => format!(
                "WARNING: a denied key uses the id {id}, with the fingerprint {theirs}. To let its machine in: \
                 saline-key -a {id} --include-denied"
            ),
        });
    }

    async fn act(
        &self,
        screen: &mut Screen<'_>,
        action: KeyAction,
        keys: Vec<&KeyEntry>,
    ) -> io::Result<u8> {
        let done = match action {
            KeyAction::Accept => "accepted",
            KeyAction::Reject => "rejected",
            KeyAction::Delete => "deleted",
        };
        match self.ask(screen, action, done, &keys).await? {
            Answer::Yes => {}
            Answer::No => return Ok(exit::GOOD),
            Answer::Nobody => {
                screen.note(format!(
                    "ERROR: nobody confirmed, so no key was {done}: answer at a terminal, or give -y"
                ));
                return Ok(exit::FAILED);
            }
        }
        // In portions, so that a busy master can answer other requests in between.
        let mut changed_keys = Vec::new();
        let mut failure = None;
        for portion in keys.chunks(PORTION) {
            let Ok(request_id) = RequestId::random() else {
                return Ok(complain(screen, "the system has no randomness"));
            };
            let request = KeyRequest::Act {
                request_id,
                action,
                keys: portion
                    .iter()
                    .map(|key| (key.state, key.id.clone()))
                    .collect(),
            };
            match self.store.ask(request).await {
                Ok(reply) => changed_keys.extend(reply.keys),
                Err(why) => {
                    failure = Some(why);
                    break;
                }
            }
        }
        let changed: BTreeSet<&MinionId> = changed_keys.iter().map(|key| &key.id).collect();
        let mut code = exit::GOOD;
        for key in &keys {
            if changed.contains(&key.id) {
                self.say(screen, &format!("Key for minion {} {done}.", key.id))?;
            } else if failure.is_none() {
                screen.note(format!(
                    "ERROR: Key for minion {} was left alone: it is not {} any more.",
                    key.id,
                    adjective(key.state)
                ));
                code = exit::FAILED;
            }
        }
        if self.format.is_for_programs() {
            let states: Vec<KeyState> = KeyState::ALL
                .into_iter()
                .filter(|state| changed_keys.iter().any(|key| key.state == *state))
                .collect();
            let changed: Vec<&KeyEntry> = changed_keys.iter().collect();
            self.print(
                screen,
                &group(&changed, &states, |_| Description::default()),
            )?;
        }
        if let Some(why) = failure {
            code = complain(screen, &why);
            screen.note(format!(
                "{} of {} keys were {done} before the error; others may have been too. Repeat the command to finish",
                changed_keys.len(),
                keys.len()
            ));
        }
        Ok(code)
    }

    /// Shows the keys that will be changed with their fingerprints, and asks for confirmation unless `-y`
    /// was given.
    async fn ask(
        &self,
        screen: &mut Screen<'_>,
        action: KeyAction,
        done: &str,
        keys: &[&KeyEntry],
    ) -> io::Result<Answer> {
        let states: Vec<KeyState> = KeyState::ALL
            .into_iter()
            .filter(|state| keys.iter().any(|key| key.state == *state))
            .collect();
        let last_seen = LastSeenOfKeys::read(self.store, keys).await;
        let describe = |key: &KeyEntry| Description {
            detail: fingerprint(key),
            remark: last_seen.of(key),
        };
        let listed = render(&group(keys, &states, describe), self.plain_beside());
        self.say(
            screen,
            &format!(
                "The following keys are going to be {done}:\n{}",
                String::from_utf8_lossy(&listed)
            ),
        )?;
        if self.yes {
            return Ok(Answer::Yes);
        }
        let (question, default) = match action {
            KeyAction::Delete => ("Proceed? [N/y] ", "n"),
            _ => ("Proceed? [n/Y] ", "y"),
        };
        let beside = self.format.is_for_programs();
        let answer = screen.ask(question, beside, self.store.context()).await?;
        let answer = match answer.as_deref().map(str::trim) {
            // The input has ended, so no answer can come.
            None => {
                screen.prose(beside, "")?;
                return Ok(Answer::Nobody);
            }
            Some("") => default,
            Some(answer) => answer,
        };
        Ok(match answer.starts_with(['y', 'Y']) {
            true => Answer::Yes,
            false => Answer::No,
        })
    }

    fn no_match(&self, screen: &mut Screen<'_>, selection: &Selection) -> io::Result<u8> {
        let mut states: Vec<&str> = [
            KeyState::Pending,
            KeyState::Accepted,
            KeyState::Rejected,
            KeyState::Denied,
        ]
        .into_iter()
        .filter(|state| selection.states.contains(state))
        .map(adjective)
        .collect();
        let last = states.pop().unwrap_or_default();
        let states = match states.is_empty() {
            true => last.to_owned(),
            false => format!("{} or {last}", states.join(", ")),
        };
        self.say(
            screen,
            &format!(
                "The key glob '{}' does not match any {states} keys.",
                escape_line(&selection.glob)
            ),
        )?;
        Ok(exit::FAILED)
    }

    /// Prints prose: with the keys, beside data for programs, or not at all.
    fn say(&self, screen: &mut Screen<'_>, text: &str) -> io::Result<()> {
        match self.format {
            Format::Quiet => Ok(()),
            format => screen.prose(format.is_for_programs(), text),
        }
    }

    fn plain_beside(&self) -> Style {
        match self.format.is_for_programs() {
            true => Style::default(),
            false => self.style,
        }
    }

    fn print(&self, screen: &mut Screen<'_>, groups: &Groups) -> io::Result<()> {
        match self.format {
            Format::Nested | Format::Key => screen.line(render(groups, self.style)),
            format => match format.render(&data(groups), self.style, false) {
                Some(text) => screen.line(text),
                None => Ok(()),
            },
        }
    }
}

/// Returns the fingerprint of a key.
fn fingerprint(key: &KeyEntry) -> Option<String> {
    Some(match key.holds_key() {
        true => PublicIdentity(key.identity).fingerprint(),
        false => NOT_READABLE.to_owned(),
    })
}

fn complain(screen: &mut Screen<'_>, why: &str) -> u8 {
    screen.note(escape_line(&format!("ERROR: {why}")));
    exit::FAILED
}

fn adjective(state: KeyState) -> &'static str {
    match state {
        KeyState::Accepted => "accepted",
        KeyState::Denied => "denied",
        KeyState::Pending => "unaccepted",
        KeyState::Rejected => "rejected",
    }
}

/// Returns the selected keys, by name.
fn matching<'k>(keys: &'k [KeyEntry], selection: &Selection, glob: &Glob) -> Vec<&'k KeyEntry> {
    let mut keys: Vec<&KeyEntry> = keys
        .iter()
        .filter(|key| selection.states.contains(&key.state) && glob.matches(key.id.as_str()))
        .collect();
    keys.sort_by(|a, b| (a.state, &a.id).cmp(&(b.state, &b.id)));
    keys
}

/// Groups keys under the headings of `states`.
fn group(
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
    let order = std::iter::once(Heading::Local).chain(JSON_ORDER.map(Heading::State));
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

#[cfg(test)]
mod tests;
