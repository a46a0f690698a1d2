//! `ssh`: the keys that users may log in with, those of the machine, and the machines that users know.

mod authorized_key;
mod known_hosts;
mod user_file;

use std::io;

use saline_data::Value;
use saline_functions::{Failure, FromValue, Mismatch, function};

use crate::accounts::Account;
use crate::line_file::Lines;
use crate::{Functions, JobContext};
use authorized_key::{AuthorizedKey, are_options, key_type};
use user_file::UserFile;

pub(super) const FUNCTIONS: Functions = &[
    &AUTH_KEYS,
    &CHECK_KEY,
    &HOST_KEYS,
    &RM_AUTH_KEY,
    &SET_AUTH_KEY,
    &USER_KEYS,
    &known_hosts::CHECK_KNOWN_HOST,
    &known_hosts::GET_KNOWN_HOST_ENTRIES,
    &known_hosts::RECV_KNOWN_HOST_ENTRIES,
    &known_hosts::RM_KNOWN_HOST,
    &known_hosts::SET_KNOWN_HOST,
];

/// The folder in which sshd keeps the keys of the machine.
const HOST_KEYS_FOLDER: &str = "/etc/ssh";

/// The largest public key that is returned, in bytes.
const LARGEST_PUBLIC_KEY: u64 = 64 * 1024;

/// Returns the keys that a user may log in with: each with its type (`enc`), its `options`, its `comment` and its `fingerprint`.
///
/// user
///     The name of a user, or a list of names, for which the answer is a mapping; without it, all users who have such keys.
///
/// config
///     The file, below the home or absolute. `%h` stands for the home and `%u` for the name, as in `sshd_config`.
///
/// fingerprint_hash_type
///     `sha256`; there is no other.
///
/// CLI Example:
///
///     saline '*' ssh.auth_keys ann
///     saline '*' ssh.auth_keys '[ann, bob]'
#[function]
fn auth_keys(
    job: &JobContext<'_>,
    user: Option<Users>,
    #[default(".ssh/authorized_keys")] config: String,
    #[default("sha256")] fingerprint_hash_type: String,
) -> Result<Value, Failure> {
    check_hash(&fingerprint_hash_type)?;
    let keys_of = |account: Account| {
        let file = file_of(account, &config)?;
        let read = file.read().map_err(|error| failed(&error))?;
        Ok::<_, Failure>(read.map(|bytes| shown(&keys_in(&bytes))))
    };
    match user {
        Some(Users::One(name)) => {
            let keys = keys_of(account(job, &name)?)?;
            Ok(keys.unwrap_or(Value::Map(Vec::new())))
        }
        Some(Users::Many(names)) => {
            let mut all = Vec::new();
            for name in names {
                let keys = keys_of(account(job, &name)?)?;
                all.push((name, keys.unwrap_or(Value::Map(Vec::new()))));
            }
            Ok(Value::Map(all))
        }
        None => {
            let accounts = Account::all_of(&job.name_service("passwd", None)?);
            let all = accounts.into_iter().filter_map(|account| {
                let name = account.name.clone();
                match keys_of(account) {
                    Ok(keys) => keys.map(|keys| (name, keys)),
                    Err(failure) => {
                        tracing::info!("the keys of {name} are left out: {failure}");
                        None
                    }
                }
            });
            Ok(Value::Map(all.collect()))
        }
    }
}

/// Returns what `ssh.set_auth_key` would do with a key: `add` it, `update` its options or its comment, or nothing (`exists`).
///
/// CLI Example:
///
///     saline '*' ssh.check_key ann AAAAC3Nza… ssh-ed25519 ann@example.org '[]'
#[function]
#[allow(clippy::too_many_arguments, reason = "Salt's parameters")]
fn check_key(
    job: &JobContext<'_>,
    user: String,
    key: String,
    #[default("ssh-rsa")] enc: String,
    #[default("")] comment: String,
    options: Option<Options>,
    #[default(".ssh/authorized_keys")] config: String,
) -> Result<&'static str, Failure> {
    let new = new_key(&key, &enc, comment, options)?;
    let file = file_of(account(job, &user)?, &config)?;
    let read = file.read().map_err(|error| failed(&error))?;
    let keys = keys_in(&read.unwrap_or_default());
    Ok(match keys.iter().find(|known| known.key == new.key) {
        None => "add",
        Some(known) if *known == new => "exists",
        Some(_) => "update",
    })
}

/// Lets a user log in with a key. Returns `new`, `replace` if the key had other options or another comment, or `no change`.
///
/// The file and its folder are created for the user where they are missing. Other lines keep their bytes. A symbolic link in the
/// home, or a folder or file there that others can change, is refused.
///
/// user
///     The name of the user.
///
/// key
///     The key in base64; or the whole line of a public key, with its type and its comment.
///
/// enc
///     The type of the key, such as `ssh-ed25519`, or in short `ed25519`, `rsa`, `ecdsa`.
///
/// comment
///     The comment.
///
/// options
///     A list of options, such as `[no-pty, 'from="10.0.0.0/8"']`.
///
/// config
///     The file, as in `ssh.auth_keys`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' ssh.set_auth_key ann AAAAC3Nza… enc=ssh-ed25519 comment=ann@example.org
///     saline '*' ssh.set_auth_key deploy "$(cat deploy.pub)" options='[restrict]'
#[function(changes)]
#[allow(clippy::too_many_arguments, reason = "Salt's parameters")]
fn set_auth_key(
    job: &JobContext<'_>,
    user: String,
    key: String,
    #[default("ssh-rsa")] enc: String,
    #[default("")] comment: String,
    options: Option<Options>,
    #[default(".ssh/authorized_keys")] config: String,
    #[default(false)] test: bool,
) -> Result<&'static str, Failure> {
    let new = new_key(&key, &enc, comment, options)?;
    let file = file_of(account(job, &user)?, &config)?;
    let change = |before: Option<&[u8]>| {
        let mut lines = Lines::of(before.unwrap_or_default());
        let is_this =
            |line: &str| AuthorizedKey::parse(line).is_some_and(|known| known.key == new.key);
        match lines.position(is_this) {
            None => {
                lines.push(&new.to_line());
                (Some(lines.to_bytes()), "new")
            }
            Some(at) => {
                let known = lines
                    .texts()
                    .nth(at)
                    .and_then(|line| AuthorizedKey::parse(&line));
                if known.as_ref() == Some(&new) {
                    return (None, "no change");
                }
                lines.set(at, &new.to_line());
                (Some(lines.to_bytes()), "replace")
            }
        }
    };
    edit(&file, test, change)
}

/// Takes a key away from a user, who cannot log in with it any more. Returns `Key removed`, or `Key not present`.
///
/// user
///     The name of the user.
///
/// key
///     The key in base64, or the whole line of a public key.
///
/// config
///     The file, as in `ssh.auth_keys`.
///
/// test
///     Only tells what would change.
///
/// CLI Example:
///
///     saline '*' ssh.rm_auth_key ann AAAAC3Nza…
#[function(changes)]
fn rm_auth_key(
    job: &JobContext<'_>,
    user: String,
    key: String,
    #[default(".ssh/authorized_keys")] config: String,
    #[default("sha256")] fingerprint_hash_type: String,
    #[default(false)] test: bool,
) -> Result<&'static str, Failure> {
    check_hash(&fingerprint_hash_type)?;
    let wanted = match AuthorizedKey::parse(&key) {
        Some(line) => line.key,
        None => key.trim().to_owned(),
    };
    let file = file_of(account(job, &user)?, &config)?;
    let is_there = file.read().map_err(|error| failed(&error))?.is_some();
    if !is_there {
        return Ok("Key not present");
    }
    let change = |before: Option<&[u8]>| {
        let mut lines = Lines::of(before.unwrap_or_default());
        let is_other =
            |line: &str| AuthorizedKey::parse(line).is_none_or(|known| known.key != wanted);
        let count = lines.texts().len();
        lines.retain(is_other);
        match lines.texts().len() == count {
            true => (None, "Key not present"),
            false => (Some(lines.to_bytes()), "Key removed"),
        }
    };
    edit(&file, test, change)
}

/// Returns the public keys of the machine, by the names of their files without `ssh_host_` and with dots.
///
/// keydir
///     The folder.
///
/// private, certs
///     `certs=False` leaves certificates out. Private keys are never returned: the master keeps returns.
///
/// CLI Example:
///
///     saline '*' ssh.host_keys
#[function]
fn host_keys(
    _: &JobContext<'_>,
    keydir: Option<String>,
    #[default(false)] private: bool,
    #[default(true)] certs: bool,
) -> Result<Value, Failure> {
    if private {
        let why =
            "private: a private key does not leave its machine, since the master keeps returns";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let folder = keydir.unwrap_or_else(|| HOST_KEYS_FOLDER.to_owned());
    let entries = std::fs::read_dir(&folder)
        .map_err(|error| Failure::Execution(format!("cannot read {folder}: {error}")))?;
    let mut keys = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = name
            .strip_prefix("ssh_host_")
            .and_then(|name| name.strip_suffix(".pub"));
        let Some(kind) = kind.filter(|kind| certs || !kind.ends_with("-cert")) else {
            continue;
        };
        // Of a link, that is what the link is.
        let is_small = entry
            .metadata()
            .is_ok_and(|found| found.is_file() && found.len() <= LARGEST_PUBLIC_KEY);
        if !is_small {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        if AuthorizedKey::parse(&text).is_some() {
            let kind = kind.strip_suffix("_key").unwrap_or(kind);
            keys.push((format!("{kind}.pub"), Value::from(text.trim())));
        }
    }
    keys.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Value::Map(keys))
}

/// Returns the public keys of users, by the names of their files in `.ssh`.
///
/// user
///     The name of a user, or a list of names; without it, all users who have such keys.
///
/// pubfile
///     The name of a file in `.ssh`, or a list of names, in the place of the usual ones.
///
/// prvfile
///     `False`: private keys are never returned, since the master keeps returns.
///
/// CLI Example:
///
///     saline '*' ssh.user_keys ann
#[function]
fn user_keys(
    job: &JobContext<'_>,
    user: Option<Users>,
    pubfile: Option<Users>,
    #[default(false)] prvfile: bool,
) -> Result<Value, Failure> {
    if prvfile {
        let why =
            "prvfile: a private key does not leave its machine, since the master keeps returns";
        return Err(Failure::Invocation(why.to_owned()));
    }
    let files = match pubfile {
        Some(names) => names.into_names(),
        None => [
            "id_dsa.pub",
            "id_ecdsa.pub",
            "id_ecdsa_sk.pub",
            "id_ed25519.pub",
            "id_ed25519_sk.pub",
            "id_rsa.pub",
        ]
        .map(str::to_owned)
        .to_vec(),
    };
    let (accounts, are_named) = match user {
        Some(users) => {
            let names = users.into_names().into_iter();
            let accounts: Result<Vec<_>, _> = names.map(|name| account(job, &name)).collect();
            (accounts?, true)
        }
        None => (Account::all_of(&job.name_service("passwd", None)?), false),
    };
    let mut all = Vec::new();
    for account in accounts {
        let mut keys = Vec::new();
        for name in &files {
            if name.contains('/') || !name.ends_with(".pub") {
                let why = format!(
                    "pubfile: {name:?} is not the name of a public key, such as id_rsa.pub"
                );
                return Err(Failure::Invocation(why));
            }
            let file = file_of(account.clone(), &format!(".ssh/{name}"))?;
            match file.read() {
                Ok(Some(bytes))
                    if AuthorizedKey::parse(&String::from_utf8_lossy(&bytes)).is_some() =>
                {
                    let text = String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
                    keys.push((name.clone(), Value::from(text)));
                }
                Ok(_) => {}
                Err(error) if are_named => return Err(failed(&error)),
                Err(_) => {}
            }
        }
        if are_named || !keys.is_empty() {
            all.push((account.name, Value::Map(keys)));
        }
    }
    Ok(Value::Map(all))
}

/// One user, or some: a name, or a list of names.
#[derive(Debug)]
enum Users {
    One(String),
    Many(Vec<String>),
}

impl Users {
    fn into_names(self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name],
            Self::Many(names) => names,
        }
    }
}

impl FromValue for Users {
    const TAKES: &'static str = "a name, or a list of names";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        match value {
            list @ Value::List(_) => Vec::from_value(list).map(Self::Many),
            one => String::from_value(one).map(Self::One),
        }
    }
}

/// The options of a key: a list, or one text.
#[derive(Debug)]
struct Options(Vec<String>);

impl FromValue for Options {
    const TAKES: &'static str = "a list of options of a key";

    fn from_value(value: Value) -> Result<Self, Mismatch> {
        let options = match value.clone() {
            list @ Value::List(_) => Vec::from_value(list)?,
            Value::Text(text) if text.is_empty() => Vec::new(),
            one => vec![String::from_value(one)?],
        };
        match are_options(&options) {
            true => Ok(Self(options)),
            false => Err(Mismatch::of::<Self>(&value)),
        }
    }
}

/// Returns the key that an operator describes.
fn new_key(
    key: &str,
    enc: &str,
    comment: String,
    options: Option<Options>,
) -> Result<AuthorizedKey, Failure> {
    let mut new = match AuthorizedKey::parse(key) {
        Some(line) => line,
        None => {
            let enc = key_type(enc).ok_or_else(|| {
                Failure::Invocation(format!("enc: there is no type of keys {enc:?}"))
            })?;
            AuthorizedKey {
                options: Vec::new(),
                enc: enc.to_owned(),
                key: key.trim().to_owned(),
                comment: String::new(),
            }
        }
    };
    if key.trim().contains(['\n', '\r']) || !new.is_key() {
        let enc = &new.enc;
        let why = format!("key: it is not a public key of the type {enc}, in base64");
        return Err(Failure::Invocation(why));
    }
    if comment.contains(char::is_control) {
        return Err(Failure::Invocation(
            "comment: it must be one line".to_owned(),
        ));
    }
    if !comment.trim().is_empty() {
        new.comment = comment.trim().to_owned();
    }
    if let Some(options) = options {
        new.options = options.0;
    }
    Ok(new)
}

/// Has `change` edit the file, or only tell what it would do.
fn edit<T>(
    file: &UserFile,
    test: bool,
    change: impl FnOnce(Option<&[u8]>) -> (Option<Vec<u8>>, T),
) -> Result<T, Failure> {
    let done = match test {
        true => file.read().map(|before| change(before.as_deref()).1),
        false => file.edit(change),
    };
    done.map_err(|error| failed(&error))
}

fn keys_in(bytes: &[u8]) -> Vec<AuthorizedKey> {
    let lines = Lines::of(bytes);
    lines
        .texts()
        .filter_map(|line| AuthorizedKey::parse(&line))
        .collect()
}

fn shown(keys: &[AuthorizedKey]) -> Value {
    let entry = |key: &AuthorizedKey| {
        let value = Value::map([
            ("comment", Value::from(key.comment.as_str())),
            ("enc", Value::from(key.enc.as_str())),
            ("fingerprint", Value::from(key.fingerprint())),
            ("options", Value::texts(key.options.iter().cloned())),
        ]);
        (key.key.clone(), value)
    };
    Value::Map(keys.iter().map(entry).collect())
}

/// Returns a user of the machine.
fn account(job: &JobContext<'_>, name: &str) -> Result<Account, Failure> {
    job.account(name)?
        .ok_or_else(|| Failure::Execution(format!("there is no user {name:?} on this machine")))
}

fn file_of(account: Account, config: &str) -> Result<UserFile, Failure> {
    UserFile::of(account, config).map_err(|why| Failure::Invocation(format!("config: {why}")))
}

fn check_hash(name: &str) -> Result<(), Failure> {
    match name {
        "sha256" => Ok(()),
        other => Err(Failure::Invocation(format!(
            "fingerprint_hash_type: fingerprints are made with sha256, not with {other:?}"
        ))),
    }
}

fn failed(error: &io::Error) -> Failure {
    Failure::Execution(error.to_string())
}
