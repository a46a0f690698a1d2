//! `--accept-list`: accepts the keys that a list names by their ids and fingerprints, and no others.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use saline_channel::PublicIdentity;
use saline_messages::{KeyAction, KeyEntry, KeyReply, KeyRequest, KeyState, MinionId};

use super::listing::{Description, fingerprint, group};
use super::{KeyCommand, MASTERS, NEXT_MASTERS, adjective, complain};
use crate::exit;
use crate::output::keys::render;
use crate::screen::{Screen, read_input};

/// The largest list in bytes.
const MAX_LIST: u64 = 16 * 1024 * 1024;

/// The keys that a list names: the line and the fingerprint of each id.
type Wanted = BTreeMap<MinionId, (usize, String)>;

impl KeyCommand<'_> {
    /// Accepts the keys on the list in `path` (`-` for the standard input) that are in one of these states, once the operator
    /// has confirmed it; only shows them where `is_dry_run`. Each id that is missing, or has another key, is told. Returns the
    /// exit code.
    pub(super) async fn accept_list(
        &self,
        screen: &mut Screen<'_>,
        path: &Path,
        states: &[KeyState],
        is_dry_run: bool,
    ) -> io::Result<u8> {
        let text = match read(path) {
            Ok(text) => text,
            Err(error) => return Ok(complain(screen, &format!("{}: {error}", path.display()))),
        };
        let wanted = match parse(&text) {
            Ok(wanted) => wanted,
            Err(wrong) => {
                for line in wrong {
                    complain(screen, &line);
                }
                return Ok(complain(
                    screen,
                    "the list is malformed: nothing was changed",
                ));
            }
        };
        let reply = match self.store.ask(screen, KeyRequest::List).await {
            Ok(reply) => reply,
            Err(why) => return Ok(complain(screen, &why)),
        };
        let mut code = exit::GOOD;
        let mut keys = Vec::new();
        for (id, (line, finger)) in &wanted {
            match find(&reply, id, finger, states) {
                Ok(Some(key)) => keys.push(key),
                Ok(None) => {}
                Err(why) => code = complain(screen, &format!("line {line}: {id}: {why}")),
            }
        }
        keys.sort_by(|a, b| (a.state, &a.id).cmp(&(b.state, &b.id)));
        if keys.is_empty() {
            if code == exit::GOOD {
                self.say(screen, "All keys on the list are accepted already.")?;
            }
            return Ok(code);
        }
        if is_dry_run {
            let states: Vec<KeyState> = KeyState::ALL
                .into_iter()
                .filter(|state| keys.iter().any(|key| key.state == *state))
                .collect();
            let describe = |key: &KeyEntry| Description {
                detail: fingerprint(key),
                ..Description::default()
            };
            let listed = render(&group(&keys, &states, describe), self.plain_beside());
            let listed = String::from_utf8_lossy(&listed);
            self.say(
                screen,
                &format!("The following keys would be accepted:\n{listed}"),
            )?;
            return Ok(code);
        }
        match self.act(screen, KeyAction::Accept, keys).await? {
            exit::GOOD => Ok(code),
            failed => Ok(failed),
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    if path == Path::new("-") {
        return read_input();
    }
    let mut text = String::new();
    File::open(path)?
        .take(MAX_LIST + 1)
        .read_to_string(&mut text)?;
    match text.len() as u64 > MAX_LIST {
        true => Err(io::Error::other("it has more than 16 MiB")),
        false => Ok(text),
    }
}

/// Reads a list: an id and a fingerprint in each line, also as `saline-key -F` prints them. Empty lines, comments (`#`),
/// headings and the master's own keys are skipped.
///
/// # Errors
/// A line for the operator about each line that is malformed.
fn parse(text: &str) -> Result<Wanted, Vec<String>> {
    let (mut wanted, mut wrong) = (Wanted::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let (number, line) = (number + 1, line.trim());
        if line.is_empty() || line.starts_with('#') || line.ends_with(" Keys:") {
            continue;
        }
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        let name = name.strip_suffix(':').unwrap_or(name);
        if [MASTERS, NEXT_MASTERS].contains(&name) {
            continue;
        }
        let finger = words.next().unwrap_or_default().to_ascii_lowercase();
        let is_remark = words.next().is_none_or(|word| word.starts_with('('));
        match MinionId::parse(name) {
            Err(error) => wrong.push(format!("line {number}: {error}")),
            Ok(_) if !PublicIdentity::is_fingerprint(&finger) || !is_remark => wrong.push(format!(
                "line {number}: not an id and a fingerprint, as in \"web1 3f:9a:…\" with 32 pairs of digits"
            )),
            Ok(id) => match wanted.get(&id) {
                Some((before, other)) if *other != finger => wrong.push(format!(
                    "line {number}: {id} has another fingerprint in line {before}"
                )),
                _ => {
                    wanted.insert(id, (number, finger));
                }
            },
        }
    }
    match wrong.is_empty() {
        true => Ok(wanted),
        false => Err(wrong),
    }
}

/// Returns the key of an id with this fingerprint that is to be accepted; none when it is accepted already.
///
/// # Errors
/// The reason why there is none.
fn find<'k>(
    reply: &'k KeyReply,
    id: &MinionId,
    finger: &str,
    states: &[KeyState],
) -> Result<Option<&'k KeyEntry>, String> {
    let of_id: Vec<&KeyEntry> = reply.keys.iter().filter(|key| key.id == *id).collect();
    let is_its = |key: &&&KeyEntry| PublicIdentity(key.identity).has_fingerprint(finger);
    let its: Vec<&KeyEntry> = of_id.iter().filter(is_its).copied().collect();
    if its.iter().any(|key| key.state == KeyState::Accepted) {
        return Ok(None);
    }
    let mut wanted = its.iter().copied();
    if let Some(key) = wanted.find(|key| states.contains(&key.state)) {
        return Ok(Some(key));
    }
    if let Some(key) = its.first() {
        let state = adjective(key.state);
        return Err(format!("its key is {state}: --include-{state} accepts it"));
    }
    match of_id.first() {
        Some(other) => {
            let has = PublicIdentity(other.identity).fingerprint();
            let state = adjective(other.state);
            Err(format!("its {state} key has another fingerprint, {has}"))
        }
        None => Err("no key has come under this id".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finger(number: u8) -> String {
        PublicIdentity([number; 32]).fingerprint()
    }

    #[test]
    fn a_list_is_read_as_it_is_written_and_as_it_is_printed() {
        let (one, two) = (finger(1), finger(2));
        let text = format!(
            "# web servers\n\nLocal Keys:\nmaster.pub:  {two}\nUnaccepted Keys:\nweb1:  {one}  (192.0.2.1, heard 3 s ago)\n\
             web2 {}\n  web1 {one}\n",
            two.replace(':', "").to_uppercase()
        );
        let wanted = parse(&text).unwrap();
        let read: Vec<(&str, usize)> = wanted
            .iter()
            .map(|(id, (line, _))| (id.as_str(), *line))
            .collect();
        assert_eq!(read, [("web1", 8), ("web2", 7)]);
    }

    #[test]
    fn every_malformed_line_is_told() {
        let (one, two) = (finger(1), finger(2));
        let text =
            format!("web1 {one}\n../x {one}\nweb2\nweb3 aa:bb\nweb4 {one} {two}\nweb1 {two}\n");
        let wrong = parse(&text).unwrap_err();
        let begin: Vec<&str> = wrong.iter().map(|line| &line[..7]).collect();
        assert_eq!(
            begin,
            ["line 2:", "line 3:", "line 4:", "line 5:", "line 6:"]
        );
        assert!(wrong[4].contains("in line 1"), "{wrong:?}");
    }
}
