//! What a host of the HTTP API may do in its own name, and the events of its hooks.

use std::borrow::Cow;

use saline_messages::{Arguments, Event, EventTag, MAX_HOOK_ARGUMENTS, PackedArguments};

use super::{About, Action, Allowed, Principal, Refusal};

/// The function of the master by which an API fires the events of its hooks.
const HOOK_RUNNER: &str = "event.send";

/// Decides what a host of the HTTP API may do in its own name: ask whether the master answers, act for users who log in, and
/// fire the events of its hooks. No rule gives it more, since whoever takes the host over would have it too.
pub(super) fn judge_api(
    principal: &Principal,
    action: Action,
    about: About<'_>,
) -> Result<Allowed, Refusal> {
    let what = match (action, about) {
        (Action::Ping | Action::ActForUsers, _) => {
            return Ok(Allowed {
                rule: Cow::Borrowed("what every API may do"),
            });
        }
        // Each has its own alone in them.
        (Action::OwnRun, _) => {
            return Ok(Allowed {
                rule: Cow::Borrowed("its own"),
            });
        }
        (Action::BeginRun, About::Function { fun, arguments, .. }) => {
            if fires_hook(fun, arguments) {
                return Ok(Allowed {
                    rule: Cow::Borrowed("events of its hooks"),
                });
            }
            format!("run {fun} on the master")
        }
        (Action::Publish, About::Function { fun, .. }) => format!("run {fun}"),
        (action, _) => action.to_string(),
    };
    Err(Refusal {
        rule: Cow::Borrowed("no rule for APIs"),
        line: format!(
            "{principal} may not {what}: an API may ask for users who logged in, and in its own name it may ping the master and fire \
             the events of its hooks"
        ),
    })
}

/// Whether a call of a runner fires the event of a hook, and its arguments are not too large for one.
pub(crate) fn fires_hook(fun: &str, arguments: &PackedArguments) -> bool {
    fired_hook(fun, arguments).is_some()
}

/// Returns the tag of the hook's event that a call of a runner fires; none where it fires none, or its arguments are too large for
/// one.
pub(crate) fn fired_hook(fun: &str, arguments: &PackedArguments) -> Option<String> {
    if fun != HOOK_RUNNER || arguments.as_packed().as_bytes().len() > MAX_HOOK_ARGUMENTS {
        return None;
    }
    named_hook(fun, &arguments.unpack().ok()?).map(str::to_owned)
}

/// Whether a call of a runner is one of `event.send` whose arguments say once what the tag is, and it is that of a hook.
pub(crate) fn names_hook(fun: &str, arguments: &Arguments) -> bool {
    named_hook(fun, arguments).is_some()
}

fn named_hook<'a>(fun: &str, arguments: &'a Arguments) -> Option<&'a str> {
    if fun != HOOK_RUNNER {
        return None;
    }
    let mut named = arguments.named.iter().filter(|(name, _)| name == "tag");
    let tag = match (arguments.positional.first(), named.next(), named.next()) {
        (Some(tag), None, _) | (None, Some((_, tag)), None) => tag,
        _ => return None,
    };
    let is_hook = |tag: &&str| EventTag::is_hook(tag) && Event::topic(tag).is_ok();
    tag.as_str().filter(is_hook)
}
