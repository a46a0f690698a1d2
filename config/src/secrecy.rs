//! Hides the secrets of a configuration where it is shown, and finds files with secrets that every user can read.

use std::os::unix::fs::PermissionsExt;

use saline_data::Value;

use crate::files::Setting;

/// The text that is shown instead of a secret value.
const HIDDEN: &str = "** hidden **";

/// The parts of names by which the value of an operator's own key is secret.
const SECRET_KEYS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "apikey",
    "api_key",
    "api-key",
    "private_key",
    "access_key",
];

/// What begins a password in a text of the form `host=db user=app password=x`.
const PASSWORDS: [&str; 3] = ["password=", "passwd=", "pwd="];

/// The key of the patterns of named arguments in a rule.
const NAMED_ARGUMENTS: &str = "kwargs";

/// The mode bit that lets every user read a file.
const ALL_READ: u32 = 0o004;

/// Whether the value of an option is shown, by `--config-dump`, `config.get` and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// The value is shown.
    Public,
    /// The value is a secret: a password, a token, or an address that contains one. The path of a key is public.
    Secret,
    /// The value is a mapping whose keys are the operator's own: values are secret whose keys contain a word such as password, pwd,
    /// passphrase, secret, token or api_key, and addresses with a password in them.
    ByKeys,
    /// The value has rules about who may call which function, or get which files or values: the patterns of named arguments are
    /// secret, since they may spell the arguments out.
    Rules,
}

impl Secrecy {
    /// Returns the value with its secrets hidden. A value that is not set stays.
    pub fn shown(self, value: Value) -> Value {
        match self {
            Self::Public => value,
            Self::Secret if value == Value::Null => value,
            Self::Secret => HIDDEN.into(),
            Self::ByKeys => match value {
                Value::Text(text) if has_password(&text) => HIDDEN.into(),
                value => within(value, self, |key, value| of_key(key).shown(value)),
            },
            Self::Rules => within(value, self, |key, value| match key {
                NAMED_ARGUMENTS => {
                    within(value, Self::Secret, |_, value| Self::Secret.shown(value))
                }
                _ => self.shown(value),
            }),
        }
    }

    /// Whether a part of the value is not shown.
    fn hides(self, value: &Value) -> bool {
        self != Self::Public && self.shown(value.clone()) != *value
    }
}

/// Returns a mapping or a list with the secrets of its values hidden: `shown` hides those of a mapping, each with its key, and
/// those of a list have this secrecy.
fn within(value: Value, secrecy: Secrecy, shown: impl Fn(&str, Value) -> Value) -> Value {
    match value {
        Value::Map(entries) => {
            let shown = |(key, value): (String, Value)| {
                let value = shown(&key, value);
                (key, value)
            };
            Value::Map(entries.into_iter().map(shown).collect())
        }
        Value::List(values) => {
            Value::List(values.into_iter().map(|one| secrecy.shown(one)).collect())
        }
        other => other,
    }
}

/// Whether a text is an address with a password, as of a database: `scheme://user:password@host`, or `host=db password=x`.
fn has_password(text: &str) -> bool {
    let authority = |rest: &str| {
        let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
        let (user, _) = rest[..end].rsplit_once('@')?;
        user.split_once(':')
            .map(|(_, password)| !password.is_empty())
    };
    let mut addresses = text.split("://").skip(1);
    let lower = text.to_ascii_lowercase();
    addresses.any(|rest| authority(rest) == Some(true))
        || PASSWORDS.iter().any(|begin| lower.contains(begin))
}

/// Returns the secrecy of the value of an operator's own key.
fn of_key(key: &str) -> Secrecy {
    let key = key.to_ascii_lowercase();
    match SECRET_KEYS.iter().any(|part| key.contains(part)) {
        true => Secrecy::Secret,
        false => Secrecy::ByKeys,
    }
}

/// Returns a warning for each file with a secret that every user of the machine can read. `secrecy_of` knows the options.
pub(crate) fn readable_secrets(
    settings: &[Setting],
    secrecy_of: impl Fn(&str) -> Secrecy,
) -> Vec<String> {
    let mut warnings = Vec::new();
    for setting in settings {
        let name = &setting.key.name;
        if !secrecy_of(name).hides(&Value::from(setting.node.clone())) {
            continue;
        }
        // A file that has gone since it was read is read by nobody.
        let Ok(found) = std::fs::metadata(&setting.file) else {
            continue;
        };
        let mode = found.permissions().mode() & 0o7777;
        if mode & ALL_READ != 0 {
            warnings.push(format!(
                "every user can read {} (mode {mode:o}), which has a secret in {name:?}: chmod o-r it",
                setting.file.display()
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::path::Path;

    use saline_protocol::transport::Tls;

    use super::*;
    use crate::role::Role;
    use crate::{Loaded, Logging, MinionConfig, OptionDoc, Paths, TransportOptions};

    /// A role of which one option is secret.
    #[derive(Debug, Default)]
    struct Database {
        address: String,
        /// The options that every role has.
        common: MinionConfig,
    }

    const OPTIONS: &[OptionDoc<Database>] = &[
        OptionDoc {
            name: "address",
            secrecy: Secrecy::Secret,
            unit: "an address with a password",
            default: "",
            help: "The address of the database.",
            read: |config, given| {
                config.address = given.text("an address with a password")?.to_owned();
                Ok(())
            },
        },
        OptionDoc {
            name: "tokens_path",
            secrecy: Secrecy::Public,
            unit: "path",
            default: "",
            help: "The file of the tokens.",
            read: |_, _| Ok(()),
        },
        OptionDoc {
            name: "facts",
            secrecy: Secrecy::ByKeys,
            unit: "a mapping",
            default: "{}",
            help: "Facts.",
            read: |_, _| Ok(()),
        },
    ];

    impl Role for Database {
        const FILE: &'static str = "database";
        const DEFAULT_INCLUDE: &'static str = "database.d/*.conf";
        const OPTIONS: &'static [OptionDoc<Self>] = OPTIONS;
        const OTHER: &'static str = "minion";
        const RELOADED: &'static [&'static str] = &[];
        const RELOADS_TRANSPORTS: bool = false;
        const KEPT_PREFIX: Option<&'static str> = None;
        const SECTION_OPTIONS: &'static [&'static str] = &[];

        fn is_of_other_role(_: &str) -> bool {
            false
        }
        fn paths(&mut self) -> &mut Paths {
            &mut self.common.paths
        }
        fn logging(&mut self) -> &mut Logging {
            &mut self.common.logging
        }
        fn metrics_listen(&mut self) -> &mut Option<crate::MetricsAddress> {
            &mut self.common.metrics_listen
        }
        fn transport(&mut self) -> &mut Vec<String> {
            &mut self.common.transport
        }
        fn max_message_size(&mut self) -> &mut usize {
            &mut self.common.max_message_size
        }
        fn tls(&mut self) -> &mut Option<Tls> {
            &mut self.common.tls
        }
        fn transport_options(&mut self) -> &mut TransportOptions {
            &mut self.common.transport_options
        }
        fn read_section_option(
            &mut self,
            _: &str,
            _: &str,
            _: &crate::given::Given<'_>,
        ) -> Result<(), saline_data::yaml::YamlError> {
            Ok(())
        }
    }

    fn load(folder: &Path, text: &str, mode: u32) -> Result<Loaded<Database>, String> {
        let file = folder.join("database");
        write(&file, text).unwrap();
        set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        crate::load::load(folder, &["tcp"]).map_err(|error| error.to_string())
    }

    #[test]
    fn an_option_is_hidden_by_its_row_in_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let text = "address: postgres://saline:hunter2@db/saline\ntokens_path: /etc/tokens\n";
        let loaded = load(folder.path(), text, 0o600).unwrap();
        assert!(loaded.config.address.contains("hunter2"));
        assert_eq!(loaded.options.get("address"), Some(&HIDDEN.into()));
        let path = loaded.options.get("tokens_path");
        assert_eq!(path, Some(&"/etc/tokens".into()));
        assert_eq!(loaded.warnings, [""; 0]);

        let unset = load(folder.path(), "", 0o644).unwrap();
        assert_eq!(unset.options.get("address"), Some(&Value::Null));
        assert_eq!(unset.warnings, [""; 0]);
    }

    #[test]
    fn keys_of_the_operators_own_are_hidden_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let text = "facts: {rack: 7, db: [{API_Token: t0k}], passwords: {a: b}, secret: }\ntcp: {password: p4ss, backlog: 9}\n";
        let loaded = load(folder.path(), text, 0o600).unwrap();
        let shown = format!("{:?}", loaded.options);
        for hidden in ["t0k", "p4ss", "\"a\""] {
            assert!(!shown.contains(hidden), "{shown}");
        }
        let facts = loaded.options.get("facts").unwrap();
        assert_eq!(facts.get("rack"), Some(&Value::Int(7)));
        assert_eq!(facts.get("passwords"), Some(&HIDDEN.into()));
        assert_eq!(facts.get("secret"), Some(&Value::Null));
        let tcp = loaded.options.get("tcp").unwrap();
        assert_eq!(tcp.get("backlog"), Some(&Value::Int(9)));
        assert_eq!(tcp.get("password"), Some(&HIDDEN.into()));
    }

    #[test]
    fn addresses_with_a_password_are_hidden_whatever_their_names_are() {
        let shown = |text: &str| Secrecy::ByKeys.shown(text.into()) != Value::from(HIDDEN);
        for secret in [
            "postgres://saline:hunter2@db/saline",
            "see https://u:p@host:81 there",
            "host=db user=u PASSWORD=x",
            "Server=db;Uid=u;Pwd=x;",
        ] {
            assert!(!shown(secret), "{secret}");
        }
        for public in [
            "postgres://saline@db/saline",
            "https://host:81/a@b:c",
            "https://u:@host",
            "a:b@c",
            "password",
        ] {
            assert!(shown(public), "{public}");
        }
        for key in ["pwd", "db_api_key", "Passphrase", "aws_access_key_id"] {
            let facts = Value::map([(key, Value::from("x"))]);
            let shown = Secrecy::ByKeys.shown(facts);
            assert_eq!(shown.get(key), Some(&HIDDEN.into()), "{key}");
        }
    }

    #[test]
    fn patterns_of_named_arguments_are_hidden_in_rules() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            "publisher_acl: {ann: [{'web*': [{test.arg: {args: [a], kwargs: {key: hunter2}}}]}]}\n";
        write(folder.path().join("master"), text).unwrap();
        let loaded = crate::MasterConfig::load(folder.path(), &["tcp"]).unwrap();
        let shown = format!("{:?}", loaded.options.get("publisher_acl"));
        assert!(!shown.contains("hunter2"), "{shown}");
        for public in ["ann", "web*", "test.arg", "\"a\"", "key"] {
            assert!(shown.contains(public), "{shown}");
        }
    }

    #[test]
    fn a_file_with_a_secret_that_every_user_can_read_is_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        let warned = |text: &str, mode| {
            let warnings = load(folder.path(), text, mode).unwrap().warnings;
            warnings
                .join("\n")
                .replace(folder.path().to_str().unwrap(), "")
        };
        assert_eq!(warned("address: hunter2\n", 0o640), "");
        assert_eq!(warned("facts: {rack: 7}\n", 0o644), "");
        assert_eq!(
            warned("address: hunter2\n", 0o644),
            "every user can read /database (mode 644), which has a secret in \"address\": chmod o-r it"
        );
        let section = warned("tcp: {password: hunter2}\n", 0o604);
        assert!(section.contains("secret in \"tcp\""), "{section}");
    }

    #[test]
    fn an_error_does_not_show_a_secret() {
        let folder = tempfile::tempdir().unwrap();
        let error = load(folder.path(), "address: [hunter2]\n", 0o600).unwrap_err();
        assert!(error.ends_with(
            "database:1:10: option \"address\" takes an address with a password, not the value here"
        ), "{error}");
    }
}
