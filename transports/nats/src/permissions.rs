//! What the configuration of nats-server lets the master and the minions do.

use std::collections::BTreeMap;

use saline_protocol::transport::{BrokerUsers, Options, Result};

use crate::client::is_public_key;
use crate::options::{bad, subjects};
use crate::subjects::{Subjects, token_of};

/// The master's user where nobody names one.
const MASTER: &str = "master";

/// The subjects that a user may publish to and subscribe to.
struct Permissions {
    publish: Vec<String>,
    subscribe: Vec<String>,
}

impl Permissions {
    fn of_master(subjects: &Subjects, user: &str) -> Self {
        Self {
            publish: vec![subjects.down_of_all(), subjects.all(), subjects.who(user)],
            subscribe: vec![
                subjects.hello("*"),
                subjects.up("*", "*", "*"),
                subjects.who("*"),
                subjects.down(user, "*"),
            ],
        }
    }

    fn of_minion(subjects: &Subjects, user: &str) -> Self {
        Self {
            publish: vec![subjects.hello(user), subjects.up(user, "*", "*")],
            subscribe: vec![subjects.down(user, "*"), subjects.all()],
        }
    }
}

/// Returns the section `authorization` of a server of NATS, with these users and no others.
///
/// # Errors
/// `Config` for a user that NATS cannot have, and for two that have one token in the subjects.
pub(crate) fn text(options: &Options, users: &BrokerUsers) -> Result<String> {
    let subjects = subjects(options)?;
    let of_section = || options.text("user").map(str::to_owned);
    let master = users.server.clone().or_else(of_section);
    let master = master.unwrap_or_else(|| MASTER.to_owned());
    let mut text = String::from(
        "authorization {\n  # A connection that has not logged in after so many seconds is cut.\n  timeout: 2\n  users = [\n",
    );
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    let minions = users.clients.iter().map(|user| (user, false));
    for (user, is_master) in std::iter::once((&master, true)).chain(minions) {
        let token = token_of(user);
        if let Some(other) = known.insert(token.clone(), user) {
            let why = format!(
                "the users {other:?} and {user:?} are both {token} in the subjects of NATS: give each another name"
            );
            return Err(bad(why));
        }
        let permissions = match is_master {
            true => Permissions::of_master(&subjects, &token),
            false => Permissions::of_minion(&subjects, &token),
        };
        text.push_str(&format!(
            "    {{ {}\n      permissions: {{\n        publish:   [{}]\n        subscribe: [{}] }} }}\n",
            login(user, &token)?,
            quoted(&permissions.publish),
            quoted(&permissions.subscribe),
        ));
    }
    text.push_str("  ]\n}\n");
    Ok(text)
}

/// Returns what a user logs in by: the key of its nkey, or a password that is a variable of the configuration.
fn login(user: &str, token: &str) -> Result<String> {
    if is_public_key(user) {
        return Ok(format!("nkey: {user}"));
    }
    let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
    if user.is_empty() || !user.chars().all(is_plain) {
        return Err(bad(format!(
            "there can be no user {user:?} of NATS: a name has no quotes, backslashes and control characters"
        )));
    }
    Ok(format!("user: \"{user}\", password: $password_{token}"))
}

fn quoted(subjects: &[String]) -> String {
    let quoted: Vec<String> = subjects.iter().map(|s| format!("\"{s}\"")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use saline_protocol::transport::OptionValue;

    use super::*;
    use crate::options::SPECS;

    const NKEY: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

    fn of(section: &[(&str, &str)], server: Option<&str>, clients: &[&str]) -> Result<String> {
        let given = section.iter().map(|(name, value)| {
            let value = OptionValue::Text((*value).to_owned());
            ((*name).to_owned(), value)
        });
        let users = BrokerUsers {
            server: server.map(str::to_owned),
            clients: clients.iter().map(|user| (*user).to_owned()).collect(),
        };
        text(&Options::check(SPECS, given).unwrap(), &users)
    }

    #[test]
    fn each_user_has_its_own_subjects_and_no_others() {
        let text = of(&[("subject", "saline.prod")], None, &["web1.example", NKEY]).unwrap();
        let expected = r#"authorization {
  # A connection that has not logged in after so many seconds is cut.
  timeout: 2
  users = [
    { user: "master", password: $password_master
      permissions: {
        publish:   ["saline.prod.down.>", "saline.prod.all", "saline.prod.who.master"]
        subscribe: ["saline.prod.hello.*", "saline.prod.up.*.*.*", "saline.prod.who.*", "saline.prod.down.master.*"] } }
    { user: "web1.example", password: $password_web1_example
      permissions: {
        publish:   ["saline.prod.hello.web1_example", "saline.prod.up.web1_example.*.*"]
        subscribe: ["saline.prod.down.web1_example.*", "saline.prod.all"] } }
    { nkey: UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4
      permissions: {
        publish:   ["saline.prod.hello.UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4", "saline.prod.up.UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4.*.*"]
        subscribe: ["saline.prod.down.UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4.*", "saline.prod.all"] } }
  ]
}
"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn the_master_is_the_user_of_its_section_or_the_one_that_is_named() {
        let section = [("user", "boss"), ("password", "hunter2")];
        let text = of(&section, None, &["minion"]).unwrap();
        assert!(
            text.contains(r#"user: "boss", password: $password_boss"#),
            "{text}"
        );
        assert!(text.contains("saline.who.boss"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        let text = of(&section, Some(NKEY), &["minion"]).unwrap();
        assert!(text.contains(&format!("nkey: {NKEY}")), "{text}");
        assert!(!text.contains("boss"), "{text}");
    }

    #[test]
    fn users_that_nats_could_not_tell_apart_are_refused() {
        for (clients, says) in [
            (&["web1.a", "web1_a"][..], "web1_a in the subjects"),
            (&["web1", "web1"], "web1 in the subjects"),
            (&["master"], "master in the subjects"),
            (&["a\"b"], "no quotes"),
            (&["a\nb"], "no quotes"),
            (&[""], "no quotes"),
        ] {
            let error = of(&[], None, clients).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
