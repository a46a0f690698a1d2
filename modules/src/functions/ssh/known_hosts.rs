//! The machines that a user, or all users, know. `ssh-keygen` and `ssh-keyscan` do the work, since names may be hashed; what is
//! about a user's file runs as this user.

use std::path::Path;
use std::time::Duration;

use saline_data::Value;
use saline_functions::{Failure, function};

use super::authorized_key::{AuthorizedKey, key_type};
use super::{account, check_hash, failed, file_of};
use crate::command::Command;
use crate::line_file::Lines;
use crate::system_program::find_program;
use crate::{JobContext, Outcome};

/// The file that counts for all users.
const SYSTEM_FILE: &str = "/etc/ssh/ssh_known_hosts";

/// How long a program may take beside what it waits for.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A machine as it stands in a file: with its port, if that is not the usual one.
struct Host {
    name: String,
    port: u16,
}

/// The file that keeps the keys of machines.
struct KnownHosts<'a> {
    job: &'a JobContext<'a>,
    user: Option<String>,
    path: String,
}

/// Returns the keys by which a user knows a machine: a list of `hostname`, `enc`, `key` and `fingerprint`.
///
/// user
///     The name of a user; without it, what all users know (`/etc/ssh/ssh_known_hosts`).
///
/// hostname
///     The name or the address of the machine.
///
/// config
///     The file, below the home or absolute.
///
/// port
///     The port, if it is not 22.
///
/// CLI Example:
///
///     saline '*' ssh.get_known_host_entries ann git.example.org
#[function]
pub(super) fn get_known_host_entries(
    job: &JobContext<'_>,
    user: Option<String>,
    #[default("")] hostname: String,
    config: Option<String>,
    port: Option<u64>,
    #[default("sha256")] fingerprint_hash_type: String,
) -> Result<Value, Failure> {
    check_hash(&fingerprint_hash_type)?;
    let host = Host::of(&hostname, port)?;
    let known = KnownHosts::of(job, user, config)?.entries(&host)?;
    Ok(shown(&host, &known))
}

/// Asks a machine for its keys, and returns them as `ssh.get_known_host_entries` does. Nobody vouches for them: compare the
/// fingerprints.
///
/// enc
///     The type of the key, such as `ed25519`; without it, all.
///
/// timeout
///     For how many seconds the machine is waited for.
///
/// CLI Example:
///
///     saline '*' ssh.recv_known_host_entries git.example.org enc=ed25519
#[function]
pub(super) fn recv_known_host_entries(
    job: &JobContext<'_>,
    hostname: String,
    enc: Option<String>,
    port: Option<u64>,
    #[default(5)] timeout: u64,
) -> Result<Value, Failure> {
    let host = Host::of(&hostname, port)?;
    let received = receive(job, &host, enc.as_deref(), timeout)?;
    Ok(shown(&host, &received))
}

/// Returns what `ssh.set_known_host` would do: `add` a key, `update` it, or nothing (`exists`).
///
/// key, fingerprint
///     The key in base64, or its fingerprint as `ssh-keygen -l` prints it.
///
/// CLI Example:
///
///     saline '*' ssh.check_known_host ann git.example.org fingerprint=SHA256:XcVaf…
#[function]
pub(super) fn check_known_host(
    job: &JobContext<'_>,
    user: Option<String>,
    #[default("")] hostname: String,
    key: Option<String>,
    fingerprint: Option<String>,
    config: Option<String>,
    port: Option<u64>,
) -> Result<&'static str, Failure> {
    let host = Host::of(&hostname, port)?;
    let wanted = Wanted::of(key, fingerprint)?;
    let known = KnownHosts::of(job, user, config)?.entries(&host)?;
    Ok(match known.as_slice() {
        [] => "add",
        known if known.iter().any(|key| wanted.is(key)) => "exists",
        _ => "update",
    })
}

/// Has a user know a machine by a key, in the place of other keys of the machine. Returns its `status` (`updated` or `exists`), and the
/// entries `old` and `new`.
///
/// user
///     The name of a user; without it, all users know the machine.
///
/// fingerprint
///     The fingerprint of the key, as `ssh-keygen -l` prints it: the machine is asked for its keys, and the one that has it is
///     taken.
///
/// key, enc
///     The key in base64 and its type, in the place of a fingerprint: the machine is not asked.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' ssh.set_known_host ann git.example.org fingerprint=SHA256:XcVaf…
#[function(changes)]
#[allow(clippy::too_many_arguments, reason = "Salt's parameters")]
pub(super) fn set_known_host(
    job: &JobContext<'_>,
    user: Option<String>,
    #[default("")] hostname: String,
    fingerprint: Option<String>,
    key: Option<String>,
    port: Option<u64>,
    enc: Option<String>,
    config: Option<String>,
    #[default(5)] timeout: u64,
    #[default(false)] test: bool,
) -> Result<Outcome, Failure> {
    let host = Host::of(&hostname, port)?;
    let wanted = Wanted::of(key.clone(), fingerprint)?;
    let known = KnownHosts::of(job, user, config)?;
    let old = known.entries(&host)?;
    if old.iter().any(|key| wanted.is(key)) {
        let status = [("status", "exists".into()), ("key", shown(&host, &old))];
        return Ok(Outcome::from(Value::map(status)));
    }
    let new = match key {
        Some(key) => {
            let enc = enc.as_deref().unwrap_or("ssh-ed25519");
            super::new_key(&key, enc, String::new(), None)?
        }
        None => {
            let received = receive(job, &host, enc.as_deref(), timeout)?;
            let found = received.into_iter().find(|key| wanted.is(key));
            found.ok_or_else(|| {
                Failure::Execution(format!(
                    "{hostname} has no key with this fingerprint: nothing is done"
                ))
            })?
        }
    };
    if !test {
        if !old.is_empty() {
            known.remove(&host)?;
        }
        known.append(&format!("{} {} {}", host.shown(), new.enc, new.key))?;
    }
    Ok(Outcome::from(Value::map([
        ("status", Value::from("updated")),
        ("old", shown(&host, &old)),
        ("new", shown(&host, std::slice::from_ref(&new))),
    ])))
}

/// Has a user forget the keys of a machine. Returns `status`, `removed` or `absent`, and a `comment`. ssh-keygen keeps the old file as
/// `known_hosts.old`.
///
/// CLI Example:
///
///     saline '*' ssh.rm_known_host ann git.example.org
#[function(changes)]
pub(super) fn rm_known_host(
    job: &JobContext<'_>,
    user: Option<String>,
    #[default("")] hostname: String,
    config: Option<String>,
    port: Option<u64>,
    #[default(false)] test: bool,
) -> Result<Value, Failure> {
    let host = Host::of(&hostname, port)?;
    let known = KnownHosts::of(job, user, config)?;
    let told = |status: &str, comment: String| {
        Value::map([
            ("status", Value::from(status)),
            ("comment", Value::from(comment)),
        ])
    };
    if known.entries(&host)?.is_empty() {
        return Ok(told(
            "absent",
            format!("{} has no key of {hostname}", known.path),
        ));
    }
    if !test {
        known.remove(&host)?;
    }
    Ok(told(
        "removed",
        format!("the keys of {hostname} are removed from {}", known.path),
    ))
}

/// A key that an operator vouches for.
enum Wanted {
    Key(String),
    Fingerprint(String),
}

impl Wanted {
    fn of(key: Option<String>, fingerprint: Option<String>) -> Result<Self, Failure> {
        match (key, fingerprint) {
            (Some(key), _) => Ok(Self::Key(match AuthorizedKey::parse(&key) {
                Some(line) => line.key,
                None => key.trim().to_owned(),
            })),
            (None, Some(finger)) => {
                let plain = finger
                    .trim()
                    .trim_start_matches("SHA256:")
                    .trim_end_matches('=');
                Ok(Self::Fingerprint(plain.to_owned()))
            }
            (None, None) => Err(Failure::Invocation(
                "give key or fingerprint: a key that nobody vouches for is not taken".to_owned(),
            )),
        }
    }

    fn is(&self, key: &AuthorizedKey) -> bool {
        match self {
            Self::Key(wanted) => *wanted == key.key,
            Self::Fingerprint(wanted) => *wanted == key.fingerprint(),
        }
    }
}

impl Host {
    fn of(name: &str, port: Option<u64>) -> Result<Self, Failure> {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '_');
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == ':');
        if !begins || name.len() > 255 || !name.chars().all(is_usual) {
            return Err(Failure::Invocation(format!(
                "hostname: {name:?} is not the name or the address of a machine"
            )));
        }
        let port = port.map_or(Ok(22), u16::try_from);
        let port = port.ok().filter(|port| *port > 0).ok_or_else(|| {
            Failure::Invocation("port: it is a number from 1 to 65535".to_owned())
        })?;
        Ok(Self {
            name: name.to_owned(),
            port,
        })
    }

    /// Returns the machine as ssh writes it.
    fn shown(&self) -> String {
        match self.port {
            22 => self.name.clone(),
            port => format!("[{}]:{port}", self.name),
        }
    }
}

impl<'a> KnownHosts<'a> {
    fn of(
        job: &'a JobContext<'a>,
        user: Option<String>,
        config: Option<String>,
    ) -> Result<Self, Failure> {
        let path = match &user {
            Some(name) => {
                let account = account(job, name)?;
                let config = config.as_deref().unwrap_or(".ssh/known_hosts");
                file_of(account, config)?.path().to_string()
            }
            None => config.unwrap_or_else(|| SYSTEM_FILE.to_owned()),
        };
        if !Path::new(&path).is_absolute() {
            let why = format!("config: {path} is not an absolute path");
            return Err(Failure::Invocation(why));
        }
        Ok(Self { job, user, path })
    }

    /// Returns the keys of a machine.
    fn entries(&self, host: &Host) -> Result<Vec<AuthorizedKey>, Failure> {
        let (retcode, printed) = self.keygen(&["-F", &host.shown(), "-f", &self.path])?;
        match retcode {
            0 => Ok(keys(&printed)),
            // There is no such entry, or no such file.
            _ => Ok(Vec::new()),
        }
    }

    fn remove(&self, host: &Host) -> Result<(), Failure> {
        match self.keygen(&["-R", &host.shown(), "-f", &self.path])? {
            (0, _) => Ok(()),
            (_, printed) => Err(Failure::Execution(format!(
                "ssh-keygen failed: {}",
                printed.trim()
            ))),
        }
    }

    fn append(&self, line: &str) -> Result<(), Failure> {
        let Some(user) = &self.user else {
            let path = Path::new(&self.path);
            let mut lines = Lines::read(path)?;
            lines.push(line);
            return lines.write(path);
        };
        let file = file_of(account(self.job, user)?, &self.path)?;
        let appended = file.edit(|before| {
            let mut lines = Lines::of(before.unwrap_or_default());
            lines.push(line);
            (Some(lines.to_bytes()), ())
        });
        appended.map_err(|error| failed(&error))
    }

    fn keygen(&self, words: &[&str]) -> Result<(i64, String), Failure> {
        run(self.job, self.user.as_deref(), "ssh-keygen", words, TIMEOUT)
    }
}

/// Asks a machine for its keys.
fn receive(
    job: &JobContext<'_>,
    host: &Host,
    enc: Option<&str>,
    timeout: u64,
) -> Result<Vec<AuthorizedKey>, Failure> {
    let seconds = timeout.clamp(1, 300);
    let (seconds_text, port) = (seconds.to_string(), host.port.to_string());
    let mut words = vec!["-T", &seconds_text, "-p", &port];
    if let Some(enc) = enc {
        let known = key_type(enc);
        let known = known
            .ok_or_else(|| Failure::Invocation(format!("enc: there is no type of keys {enc:?}")))?;
        // ssh-keyscan knows the short names alone.
        words.extend([
            "-t",
            if known.starts_with("ecdsa") {
                "ecdsa"
            } else {
                known.trim_start_matches("ssh-")
            },
        ]);
    }
    words.extend(["--", &host.name]);
    let time = Duration::from_secs(seconds) + TIMEOUT;
    let (_, printed) = run(job, None, "ssh-keyscan", &words, time)?;
    Ok(keys(&printed))
}

/// Runs a program, as a user if there is one. Returns its retcode and its output.
fn run(
    job: &JobContext<'_>,
    user: Option<&str>,
    name: &str,
    words: &[&str],
    timeout: Duration,
) -> Result<(i64, String), Failure> {
    let program = find_program(name).ok_or_else(|| {
        Failure::Execution(format!(
            "this machine has no {name}: install openssh-client"
        ))
    })?;
    let mut argv = vec![program.display().to_string()];
    argv.extend(words.iter().map(|word| (*word).to_owned()));
    let done = job.run(&Command {
        argv,
        user: user.map(str::to_owned),
        timeout: Some(timeout),
        environment: vec![("LC_ALL".to_owned(), Some("C".to_owned()))],
        folder: Some("/".into()),
        ..Command::default()
    })?;
    if done.timed_out {
        let seconds = timeout.as_secs();
        return Err(Failure::Execution(format!(
            "{name} was ended, since it took longer than {seconds} s"
        )));
    }
    let printed = done.stdout.into_bytes().map_err(Failure::Execution)?;
    Ok((done.retcode, String::from_utf8_lossy(&printed).into_owned()))
}

/// Returns the keys in lines of a file of known hosts.
fn keys(text: &str) -> Vec<AuthorizedKey> {
    let lines = text.lines().filter(|line| !line.starts_with(['#', '@']));
    lines
        .filter_map(|line| AuthorizedKey::parse(line.split_once(' ')?.1))
        .collect()
}

fn shown(host: &Host, keys: &[AuthorizedKey]) -> Value {
    let entry = |key: &AuthorizedKey| {
        Value::map([
            ("hostname", Value::from(host.shown())),
            ("enc", Value::from(key.enc.as_str())),
            ("key", Value::from(key.key.as_str())),
            ("fingerprint", Value::from(key.fingerprint())),
        ])
    };
    Value::List(keys.iter().map(entry).collect())
}
