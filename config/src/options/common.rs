//! The options that the roles share.

use std::time::Duration;

use crate::role::{ApiListenerRole, FleetRole, Role};
use crate::{LogFormat, LogLevel, NoMetricsAddress, OptionDoc, Secrecy};

pub(super) const fn root_dir<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "root_dir",
        secrecy: Secrecy::Public,
        unit: "path",
        default: "/",
        help: "Put before `pki_dir`, `cachedir`, `state_dir`, `sock_dir`, `pidfile`, `log_file`, the socket of `metrics_listen` and the master's `audit_file`, `autosign_file`, `autoreject_file` and `^filename` of `external_auth`, \
               unless they begin with it.",
        read: |config, given| {
            let path = given.path()?;
            config.paths().root_dir = std::path::absolute(path)
                .map_err(|error| given.refuse(format!("cannot be made absolute: {error}")))?;
            Ok(())
        },
    }
}

pub(super) const fn pki_dir<C: Role>(default: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "pki_dir",
        secrecy: Secrecy::Public,
        unit: "path",
        default,
        help: "The folder of the keys.",
        read: |config, given| {
            config.paths().pki_dir = given.path()?;
            Ok(())
        },
    }
}

pub(super) const fn cachedir<C: Role>(default: &'static str, help: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "cachedir",
        secrecy: Secrecy::Public,
        unit: "path",
        default,
        help,
        read: |config, given| {
            config.paths().cache_dir = given.path()?;
            Ok(())
        },
    }
}

pub(super) const fn state_dir<C: Role>(default: &'static str, help: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "state_dir",
        secrecy: Secrecy::Public,
        unit: "path",
        default,
        help,
        read: |config, given| {
            config.paths().state_dir = given.path()?;
            Ok(())
        },
    }
}

pub(super) const fn sock_dir<C: Role>(default: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "sock_dir",
        secrecy: Secrecy::Public,
        unit: "path",
        default,
        help: "The folder of the local sockets, and of the lock that keeps a second instance \
               from running.",
        read: |config, given| {
            config.paths().sock_dir = given.path()?;
            Ok(())
        },
    }
}

pub(super) const fn ipc_transport<C: FleetRole>(help: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "ipc_transport",
        secrecy: Secrecy::Public,
        unit: "a scheme",
        default: "",
        help,
        read: |config, given| {
            *config.ipc_transport() = given.optional(|given| {
                given.checked("the name of a transport", |text| given.scheme(text))
            })?;
            Ok(())
        },
    }
}

pub(super) const fn pidfile<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "pidfile",
        secrecy: Secrecy::Public,
        unit: "path",
        default: "",
        help: "The file that the process id is written to. Not set: no file.",
        read: |config, given| {
            config.paths().pid_file = given.optional(|given| given.path())?;
            Ok(())
        },
    }
}

pub(super) const fn metrics_listen<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "metrics_listen",
        secrecy: Secrecy::Public,
        unit: "address:port, or the path of a socket",
        default: "",
        help: "Serve the daemon's metrics over HTTP, for Prometheus: `127.0.0.1:9464`, `[::1]:9464`, or `/run/saline/metrics.sock`, \
               which the daemon's group may use too. Whoever reaches the address can read them, without a password or encryption. \
               Not set: they are not served.",
        read: |config, given| {
            *config.metrics_listen() = given.optional(|given| {
                given.checked("an address with a port, or a path", |text| {
                    text.parse()
                        .map_err(|error: NoMetricsAddress| error.to_string())
                })
            })?;
            Ok(())
        },
    }
}

pub(super) const fn user<C: ApiListenerRole>(help: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "user",
        secrecy: Secrecy::Public,
        unit: "the name of a user",
        default: "",
        help,
        read: |config, given| {
            *config.user() = given
                .optional(|given| given.text("the name of a user"))?
                .map(str::to_owned);
            Ok(())
        },
    }
}

pub(super) const fn log_file<C: Role>(help: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "log_file",
        secrecy: Secrecy::Public,
        unit: "path",
        default: "",
        help,
        read: |config, given| {
            config.logging().file = given.optional(|given| given.path())?;
            Ok(())
        },
    }
}

pub(super) const fn log_level<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "log_level",
        secrecy: Secrecy::Public,
        unit: "level",
        default: "warning",
        help: "The level of the log: `quiet`, `critical`, `error`, `warning`, `info` (every \
               step of every job), `profile`, `debug`, `trace`, `garbage` or `all`.",
        read: |config, given| {
            config.logging().level = given.checked("the name of a level", level)?;
            Ok(())
        },
    }
}

pub(super) const fn log_level_logfile<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "log_level_logfile",
        secrecy: Secrecy::Public,
        unit: "level",
        default: "",
        help: "The level of the log if it is written to `log_file`. Not set: `log_level`.",
        read: |config, given| {
            config.logging().file_level =
                given.optional(|given| given.checked("the name of a level", level))?;
            Ok(())
        },
    }
}

fn level(text: &str) -> Result<LogLevel, String> {
    text.parse()
        .map_err(|error| format!("takes a level: {error}"))
}

pub(super) const fn log_fmt_console<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "log_fmt_console",
        secrecy: Secrecy::Public,
        unit: "text, json, or a format",
        default: "text",
        help: "The lines of the log on the standard error output: `text`, `json` (an object a line), or a \
               format as Salt has it, with `%(asctime)s`, `%(msecs)03d`, `%(levelname)s`, `%(name)s`, \
               `%(process)d`, `%(threadName)s` and `%(message)s`.",
        read: |config, given| {
            config.logging().console_format = given.checked("a format", format)?;
            Ok(())
        },
    }
}

pub(super) const fn log_fmt_logfile<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "log_fmt_logfile",
        secrecy: Secrecy::Public,
        unit: "text, json, or a format",
        default: "text",
        help: "The same for the lines in `log_file`.",
        read: |config, given| {
            config.logging().file_format = given.checked("a format", format)?;
            Ok(())
        },
    }
}

fn format(text: &str) -> Result<LogFormat, String> {
    text.parse()
        .map_err(|error| format!("takes text, json or a format: {error}"))
}

pub(super) const fn transport<C: Role>(help: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "transport",
        secrecy: Secrecy::Public,
        unit: "a scheme or a list of them",
        default: "",
        help,
        read: |config, given| {
            let schemes = given.texts("the name of a transport or a list of them", |text| {
                given.scheme(text)
            })?;
            for (index, scheme) in schemes.iter().enumerate() {
                if schemes[..index].contains(scheme) {
                    return Err(given.refuse(format!("names {scheme:?} twice")));
                }
            }
            *config.transport() = schemes;
            Ok(())
        },
    }
}

pub(super) const fn max_message_size<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "max_message_size",
        secrecy: Secrecy::Public,
        unit: "bytes, from 4096 to 2147483647",
        default: "67108864",
        help: "The largest message, on every transport. Use the same value on the master and \
               its minions.",
        read: |config, given| {
            *config.max_message_size() =
                given.bytes(4096..=i64::from(i32::MAX), "bytes, from 4096 to 2147483647")?;
            Ok(())
        },
    }
}

/// The longest `keepalive_interval`: a peer that is gone is noticed within two of them.
const MAX_KEEPALIVE_INTERVAL: i64 = 300;

pub(super) const fn keepalive_interval<C: FleetRole>() -> OptionDoc<C> {
    OptionDoc {
        name: "keepalive_interval",
        secrecy: Secrecy::Public,
        unit: "seconds, from 1 to 300",
        default: "5",
        help: "The longest time for which an end of a connection says nothing. One that has been silent for twice as long is \
               gone, and its connection ends. The shorter time of the two ends counts for both: to lower what an idle fleet \
               costs, set it on the master and its minions.",
        read: |config, given| {
            let seconds: u64 = given.whole(1..=MAX_KEEPALIVE_INTERVAL, "seconds, from 1 to 300")?;
            *config.keepalive_interval() = Duration::from_secs(seconds);
            Ok(())
        },
    }
}

pub(super) const fn ssl<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "ssl",
        secrecy: Secrecy::Public,
        unit: "a mapping, or True",
        default: "",
        help: "Encrypt network links with TLS: `certfile`, `keyfile`, `ca_certs` (paths of PEM \
               files) and `cert_reqs` (`CERT_NONE`, `CERT_OPTIONAL` or `CERT_REQUIRED`). A \
               transport that cannot refuses to start. Sessions are encrypted without it too.",
        read: |config, given| {
            *config.tls() = super::ssl::read(given)?;
            Ok(())
        },
    }
}

pub(super) const fn default_include<C: Role>(default: &'static str) -> OptionDoc<C> {
    OptionDoc {
        name: "default_include",
        secrecy: Secrecy::Public,
        unit: "a pattern of files or a list of them",
        default,
        help: "Files that are read after the main one, in the order of their names, relative \
               to its folder. Later files override earlier ones; mappings are merged. Only in \
               the main file.",
        // Followed while the files are gathered; here its value is only judged.
        read: |_, given| {
            given.optional(|given| given.texts("a pattern of files", |_| Ok(())))?;
            Ok(())
        },
    }
}

pub(super) const fn include<C: Role>() -> OptionDoc<C> {
    OptionDoc {
        name: "include",
        secrecy: Secrecy::Public,
        unit: "a pattern of files or a list of them",
        default: "",
        help: "Further files, read after those of `default_include`, relative to the folder \
               of the including file.",
        read: |_, given| {
            given.optional(|given| given.texts("a pattern of files", |_| Ok(())))?;
            Ok(())
        },
    }
}
