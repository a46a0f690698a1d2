//! `saline-key`: the keys of minions, and of hosts of the HTTP API.

mod accept_list;
mod apis;
mod change;
mod generate;
mod hash_password;
mod last_seen;
mod listing;
mod rotate_identity;
mod tokens;
mod wrong_key;

use std::ffi::OsString;
use std::io;

use saline_channel::PublicIdentity;
use saline_data::printable::escape_line;
use saline_messages::{KeyAction, KeyEntry, KeyReply, KeyRequest, KeyState, MinionId};
use saline_protocol::transport::Registry;

use self::last_seen::LastSeenOfKeys;
use self::listing::Shown;
use super::about::{self, Role};
use super::failed;
use super::keystore::{KeyStore, Offline};
use super::login::Login;
use crate::arguments::{KeyArguments, KeyVerb, Selection};
use crate::glob::Glob;
use crate::output::{Format, Style};
use crate::screen::Screen;
use crate::{exit, process_user, settings};

/// The name under which the master's own key is shown; the name of its file at minions.
const MASTERS: &str = "master.pub";

/// The name under which the key that the master's next start takes over is shown.
const NEXT_MASTERS: &str = "master.pub.next";

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
    if arguments.hash_password {
        return hash_password::hash_password(screen);
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
    let login = match Login::prepare(screen, &arguments.login()) {
        Ok(login) => login,
        Err(line) => return Ok(complain(screen, &line)),
    };
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
    let store = match store.log_in(login).await {
        Ok(store) => store,
        Err(line) => return Ok(complain(screen, &line)),
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

/// The command, with its key store and its options.
struct KeyCommand<'a> {
    store: &'a KeyStore<'a>,
    format: Format,
    style: Style,
    yes: bool,
    /// Whether keys are listed with where their minions are.
    shows_last_seen: bool,
}

impl KeyCommand<'_> {
    async fn carry_out(&self, screen: &mut Screen<'_>, verb: KeyVerb) -> io::Result<u8> {
        match verb {
            KeyVerb::Show(listing, selection) => match self.list(screen, &selection).await {
                Ok((glob, reply)) => {
                    let keys = matching(&reply.keys, &selection, &glob);
                    let last_seen = match self.shows_last_seen && !self.format.is_for_programs() {
                        true => LastSeenOfKeys::read(screen, self.store, &keys).await,
                        false => LastSeenOfKeys::default(),
                    };
                    let apis = matching(&reply.apis, &selection, &glob);
                    let shown = Shown {
                        listing,
                        apis,
                        selection: &selection,
                        shows_master: glob.matches(MASTERS),
                        keys,
                        last_seen,
                    };
                    self.show(screen, shown, &reply)
                }
                Err(code) => Ok(code),
            },
            KeyVerb::Act(action, selection) => match self.list(screen, &selection).await {
                Ok((glob, reply)) => self.act_on(screen, action, &selection, &glob, &reply).await,
                Err(code) => Ok(code),
            },
            KeyVerb::AcceptList {
                path,
                states,
                is_dry_run,
            } => self.accept_list(screen, &path, &states, is_dry_run).await,
            KeyVerb::ActOnApi(action, fingerprint) => {
                self.act_on_api(screen, action, &fingerprint).await
            }
            KeyVerb::RotateGroupKey => self.rotate_group_key(screen).await,
            KeyVerb::RotateIdentity => self.rotate_identity(screen).await,
            KeyVerb::MakeToken(wanted) => self.make_token(screen, wanted).await,
            KeyVerb::ListTokens => self.list_tokens(screen).await,
            KeyVerb::RevokeToken(name) => self.revoke_token(screen, name).await,
        }
    }

    /// Lists all keys, and compiles the glob over their names. Otherwise says why not, and returns the exit code.
    async fn list(
        &self,
        screen: &mut Screen<'_>,
        selection: &Selection,
    ) -> Result<(Glob, KeyReply), u8> {
        let glob = Glob::list(&selection.glob).map_err(|why| {
            complain(screen, &why);
            exit::USAGE
        })?;
        let reply = self.store.ask(screen, KeyRequest::List).await;
        let reply = reply.map_err(|why| complain(screen, &why))?;
        Ok((glob, reply))
    }

    /// Acts on the selected ones of the keys that were listed.
    async fn act_on(
        &self,
        screen: &mut Screen<'_>,
        action: KeyAction,
        selection: &Selection,
        glob: &Glob,
        reply: &KeyReply,
    ) -> io::Result<u8> {
        let is_missing = |id: &MinionId| KeyEntry {
            id: id.clone(),
            state: KeyState::Accepted,
            identity: KeyEntry::NO_KEY,
        };
        let missing: Vec<KeyEntry> = reply.missing.iter().map(is_missing).collect();
        let mut keys = matching(&reply.keys, selection, glob);
        keys.extend(matching(&missing, selection, glob));
        keys.retain(|key| key.holds_key() || action == KeyAction::Delete);
        if keys.is_empty() {
            return match &selection.fingerprint {
                Some(fingerprint) => {
                    let others = reply
                        .keys
                        .iter()
                        .filter(|key| glob.matches(key.id.as_str()));
                    Ok(wrong_key::explain(screen, action, fingerprint, others))
                }
                None => self.no_match(screen, selection),
            };
        }
        self.act(screen, action, keys).await
    }

    async fn rotate_group_key(&self, screen: &mut Screen<'_>) -> io::Result<u8> {
        match self.store.rotate_group_key(screen).await {
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

/// Returns the selected keys, by state and name.
fn matching<'k>(keys: &'k [KeyEntry], selection: &Selection, glob: &Glob) -> Vec<&'k KeyEntry> {
    let mut keys: Vec<&KeyEntry> = keys
        .iter()
        .filter(|key| selection.states.contains(&key.state) && glob.matches(key.id.as_str()))
        .filter(|key| {
            let meant = selection.fingerprint.as_deref();
            meant.is_none_or(|meant| PublicIdentity(key.identity).has_fingerprint(meant))
        })
        .collect();
    keys.sort_by(|a, b| (a.state, &a.id).cmp(&(b.state, &b.id)));
    keys
}

#[cfg(test)]
mod tests;
