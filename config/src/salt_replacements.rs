//! Options of Salt that Saline does not have. Each causes a warning, with what to do instead; one that restricts what a daemon does
//! causes an error.

use saline_data::Value;
use saline_data::yaml::{Content, Node};

/// Options that restrict who may do what, as whom, or whom a daemon believes. An operator who sets one relies
/// on it, so a daemon does not start where it would have no effect.
const RESTRICTING: &[&str] = &[
    "always_verify_signature",
    "autosign_grains_dir",
    "client_acl_verify",
    "cmd_blacklist_glob",
    "cmd_whitelist_glob",
    "disable_modules",
    "disable_returners",
    "disabled_requisites",
    "master_sign_pubkey",
    "minion_sign_messages",
    "require_minion_sign_messages",
    "user",
    "verify_master_pubkey_sign",
    "whitelist_modules",
];

/// Whether an option restricts what a daemon does.
pub(crate) fn restricts(name: &str) -> bool {
    RESTRICTING.contains(&name)
}

/// Whether an option that Saline does not have is in effect all the same: `user`, in a process of that user.
pub(crate) fn is_met(name: &str, node: &Node) -> bool {
    match &node.content {
        Content::Scalar(Value::Text(text)) => name == "user" && is_user_of_process(text),
        _ => false,
    }
}

/// Whether a restricting option is set to a value that restricts nothing: no value, an empty one or `False`.
pub(crate) fn is_off(node: &Node) -> bool {
    match &node.content {
        Content::Scalar(Value::Text(text)) => text.is_empty(),
        Content::Scalar(value) => matches!(value, Value::Null | Value::Bool(false)),
        Content::List(nodes) => nodes.is_empty(),
        Content::Map(entries) => entries.is_empty(),
    }
}

/// Whether this process runs as the user with this name.
fn is_user_of_process(name: &str) -> bool {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let uid = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    });
    uid == Some(rustix::process::geteuid().as_raw())
}

/// Returns what to do instead of setting a restricting option.
pub(crate) fn instead_of(name: &str) -> &'static str {
    match name {
        "user" => "start the daemon as that user",
        "autosign_grains_dir" => {
            "accept by other means: a grain is what a minion says of itself, so whoever knows its value would be accepted; `saline-key --make-token` makes tokens that do what it is for, and `autosign_file` accepts by ids"
        }
        "always_verify_signature"
        | "master_sign_pubkey"
        | "minion_sign_messages"
        | "require_minion_sign_messages"
        | "verify_master_pubkey_sign" => {
            "set it to False: every message is authenticated without it"
        }
        _ => "set it to an empty value if you can do without it",
    }
}

/// Returns what Saline has instead of an option without effect, if it has something.
pub(crate) fn replacement_of(name: &str, node: &Node) -> Option<String> {
    let instead = match name {
        "keep_jobs" => {
            let hours = match &node.content {
                Content::Scalar(value) => value.as_i64(),
                _ => None,
            };
            let seconds = hours.and_then(|hours| hours.checked_mul(3_600));
            return Some(match seconds {
                Some(seconds) => format!("write `keep_jobs_seconds: {seconds}`"),
                None => "write `keep_jobs_seconds`".to_owned(),
            });
        }
        "gather_job_timeout" => {
            "`timeout` says how long a command waits for a minion without a sign of life"
        }
        "master_type" => "the addresses in `master` are tried in their order",
        _ => return None,
    };
    Some(instead.to_owned())
}

/// Returns the option of a master that is meant by a name that neither it nor Salt has, if one is known.
pub(crate) fn other_name_of(name: &str) -> Option<&'static str> {
    match name {
        "pillar_safe_grains" | "pillar_trusted_grains" | "safe_grains" => Some("trusted_grains"),
        _ => None,
    }
}
