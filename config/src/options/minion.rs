//! The options of a minion.

use std::path::{Path, PathBuf};
use std::time::Duration;

use saline_data::Value;

use super::{common, master_address, mine, schedule};
use crate::given::Given;
use crate::minion_id;
use crate::role::{ConnectingRole, FleetRole, Role, fields_of};
use crate::{ConfigError, Loaded, MasterConfig, MinionConfig, OptionDoc, Secrecy};
use saline_data::yaml::{Content, YamlError};

impl MinionConfig {
    /// Every option of the file: what the loader accepts and what the documentation lists.
    pub const OPTIONS: &'static [OptionDoc<Self>] = <Self as Role>::OPTIONS;

    /// Reads `folder/minion`, then `folder/minion.d/*.conf` (`default_include`) and `include`, and
    /// `folder/minion_id` if these give no `id`. `schemes`
    /// are the transports that this program has: they may be named in `transport`, and each may
    /// have a section of options.
    ///
    /// # Errors
    /// When there is no such folder, a file cannot be read, or something in it is wrong; the error
    /// is one line that says where.
    pub fn load(folder: &Path, schemes: &[&str]) -> Result<Loaded<Self>, ConfigError> {
        let mut loaded: Loaded<Self> = crate::load::load(folder, schemes)?;
        if loaded.config.id.is_none() {
            loaded.config.id = minion_id::read(folder, &mut loaded.warnings)?;
        }
        loaded.config.folder = Some(folder.to_owned());
        loaded.config.shown = loaded.options.clone();
        Ok(loaded)
    }
}

impl Role for MinionConfig {
    const FILE: &'static str = "minion";
    const DEFAULT_INCLUDE: &'static str = "minion.d/*.conf";
    const OPTIONS: &'static [OptionDoc<Self>] = OPTIONS;
    const OTHER: &'static str = "master";
    const RELOADED: &'static [&'static str] = &[
        "acceptance_wait_time",
        "acceptance_wait_time_max",
        "default_include",
        "include",
        "log_file",
        "log_fmt_console",
        "log_fmt_logfile",
        "log_level",
        "log_level_logfile",
        "master",
        "master_finger",
        "master_port",
        "mine_enabled",
        "mine_functions",
        "mine_interval",
        "output_file_size",
        "recon_default",
        "recon_max",
        "rekey_interval",
        "schedule",
        "transport",
    ];
    const RELOADS_TRANSPORTS: bool = true;
    const KEPT_PREFIX: Option<&'static str> = None;
    const SECTION_OPTIONS: &'static [&'static str] = &["master_port"];

    fn is_of_other_role(name: &str) -> bool {
        MasterConfig::OPTIONS
            .iter()
            .any(|option| option.name == name)
    }
    fields_of!(Role);
    fn read_section_option(
        &mut self,
        scheme: &str,
        _name: &str,
        given: &Given<'_>,
    ) -> Result<(), YamlError> {
        self.transport_ports
            .insert(scheme.to_owned(), given.port()?);
        Ok(())
    }
    fn finish(&mut self) {
        self.place_paths();
        self.reconnect_max = self.reconnect_max.max(self.reconnect_first);
    }
}

impl FleetRole for MinionConfig {
    fields_of!(FleetRole);
}

impl ConnectingRole for MinionConfig {
    fields_of!(ConnectingRole);
}

const OPTIONS: &[OptionDoc<MinionConfig>] = &[
    master_address::master_port(),
    master_address::master(),
    master_address::id(
        "The minion's id. Not set: the one in the file `minion_id` beside this file; if there is none, \
               the host's name, which is written to it, so that a changed name of the host does not change \
               the id.",
    ),
    common::transport(
        "The transports to reach the master by, the preferred one first. Not set: the default of this \
         build. Transport options go in a section named after the transport.",
    ),
    master_address::master_finger(),
    OptionDoc {
        name: "enrolment_token_file",
        secrecy: Secrecy::Public,
        unit: "path",
        default: "",
        help: "A file (0600) with a token that `saline-key --make-token` printed: the master that made it accepts this minion's \
               key by it, and no other master gets it. Without `master_finger` that master is the one to be trusted. It is read \
               at each attempt, and removed once the minion is accepted. Not set: `enrolment_token` beside this file.",
        read: |config, given| {
            config.enrolment_token_file = given.optional(|given| given.path())?;
            Ok(())
        },
    },
    OptionDoc {
        name: "acceptance_wait_time",
        secrecy: Secrecy::Public,
        unit: "seconds",
        default: "10",
        help: "How often a minion asks again whether its key was accepted, if the master has no room to \
               hold the question until an operator has decided.",
        read: |config, given| {
            config.acceptance_wait = given.seconds(false)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "acceptance_wait_time_max",
        secrecy: Secrecy::Public,
        unit: "seconds",
        default: "0",
        help: "The largest interval of such questions: the interval doubles each time up to \
               this value; 0 keeps it constant.",
        read: |config, given| {
            config.acceptance_wait_max = given.seconds(true)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "recon_default",
        secrecy: Secrecy::Public,
        unit: "milliseconds",
        default: "200",
        help: "The first delay before the minion reconnects.",
        read: |config, given| {
            config.reconnect_first = given.milliseconds()?;
            Ok(())
        },
    },
    OptionDoc {
        name: "recon_max",
        secrecy: Secrecy::Public,
        unit: "milliseconds",
        default: "10000",
        help: "The largest delay before the minion reconnects; at least the first.",
        read: |config, given| {
            config.reconnect_max = given.milliseconds()?;
            Ok(())
        },
    },
    OptionDoc {
        name: "rekey_interval",
        secrecy: Secrecy::Public,
        unit: "seconds, from 10",
        default: "3600",
        help: "The longest time for which the keys of a session with the master are used. Then the minion makes a new session \
               over the same connection, and switches to it.",
        read: |config, given| {
            let seconds: u64 = given.whole(10..=i64::from(u32::MAX), "seconds, from 10")?;
            config.rekey_interval = Duration::from_secs(seconds);
            Ok(())
        },
    },
    common::max_message_size(),
    common::keepalive_interval(),
    common::ssl(),
    OptionDoc {
        name: "process_count_max",
        secrecy: Secrecy::Public,
        unit: "jobs, -1 for the default",
        default: "128",
        help: "The largest number of jobs that run at once; further jobs wait.",
        read: |config, given| {
            let takes = "a number of jobs from 1 to 65535, or -1 for the default";
            let count: i64 = given.whole(-1..=65_535, takes)?;
            config.process_count_max = match count {
                -1 => MinionConfig::default().process_count_max,
                0 => return Err(given.wrong(takes)),
                // In range, as was just seen.
                count => usize::try_from(count).map_err(|_| given.wrong(takes))?,
            };
            Ok(())
        },
    },
    OptionDoc {
        name: "output_file_size",
        secrecy: Secrecy::Public,
        unit: "bytes, 0 for no file",
        default: "134217728",
        help: "How much of the output of a command is kept in a file below `cachedir/output` when it is above \
               `max_message_size`; what comes beyond it is counted and not kept. The return names the file.",
        read: |config, given| {
            config.output_file_size = given.bytes(0..=i64::MAX, "bytes, 0 for no file")?;
            Ok(())
        },
    },
    OptionDoc {
        name: "pass_environment",
        secrecy: Secrecy::Public,
        unit: "name or list",
        default: "",
        help: "Variables of the minion's environment that commands get, beside those for paths, user, language, \
               time zone and proxies; `APP_*` stands for every name that begins so. Commands get no others.",
        read: |config, given| {
            config.pass_environment =
                given.texts("the name of a variable, or a list of names", |name| {
                    let plain = name.strip_suffix('*').unwrap_or(name);
                    match plain.contains(['=', '*', '\0']) {
                        true => Err(format!("{name:?} is not a valid name of a variable")),
                        false => Ok(name.to_owned()),
                    }
                })?;
            Ok(())
        },
    },
    OptionDoc {
        name: "module_dirs",
        secrecy: Secrecy::Public,
        unit: "path or list",
        default: "",
        help: "Folders with functions of your own: an executable named `NAME` in one of them is the module `NAME` (Salt's \
               folders hold Python modules instead). See `docs/own-functions.md`.",
        read: |config, given| {
            config.module_dirs = folders(given)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "grains_dirs",
        secrecy: Secrecy::Public,
        unit: "path or list",
        default: "",
        help: "Folders with executables that print further grains: a mapping in JSON (Salt's folders hold Python modules \
               instead). See `docs/functions/grains.md`.",
        read: |config, given| {
            config.grains_dirs = folders(given)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "minion_pillar_cache",
        secrecy: Secrecy::Public,
        unit: "True or False",
        default: "False",
        help: "Whether the minion keeps its pillar in the file `cachedir/pillar` (0600) too, and uses it after a start until the master \
               has sent one. Its secrets are in the clear there. Not set: the pillar is in memory alone.",
        read: |config, given| {
            config.pillar_cache = given.flag()?;
            Ok(())
        },
    },
    OptionDoc {
        name: "spool_sync",
        secrecy: Secrecy::Public,
        unit: "crash or always",
        default: "crash",
        help: "What the records of begun jobs and of undelivered returns survive: `crash` a \
               crash of the process, `always` also a power loss, at the cost of two syncs of \
               the disk for each job. With `crash`, jobs that were handed over before a power \
               loss may be reported as \"may have run\".",
        read: |config, given| {
            config.spool_sync_always = match given.text("`crash` or `always`")? {
                "crash" => false,
                "always" => true,
                _ => return Err(given.wrong("`crash` or `always`")),
            };
            Ok(())
        },
    },
    OptionDoc {
        name: "grains",
        secrecy: Secrecy::ByKeys,
        unit: "a mapping",
        default: "{}",
        help: "Additional facts about this machine. Grains of later files are merged. They override those of `grains.d/*.yaml` and of \
               the file `grains` beside this file, which `grains.setval` writes.",
        read: |config, given| {
            match &given.node.content {
                Content::Map(_) => {
                    if let Value::Map(new) = Value::from(given.node.clone()) {
                        merge(&mut config.grains, new);
                    }
                }
                Content::Scalar(Value::Null) => {}
                _ => return Err(given.wrong("a mapping of names to values")),
            }
            Ok(())
        },
    },
    schedule::schedule(
        "Jobs that run on this minion by the clock, with Salt's keywords: see `docs/schedules.md`. Jobs of later files are \
         added.",
    ),
    schedule::schedule_missed(),
    mine::mine_functions(),
    mine::mine_interval(),
    mine::mine_enabled(),
    common::ipc_transport(
        "The transport of the minion's event bus on this machine (`docs/event-bus.md`). Not set: the default of this build.",
    ),
    common::root_dir(),
    common::pki_dir("/etc/saline/pki/minion"),
    common::cachedir(
        "/var/cache/saline/minion",
        "The folder of data whose loss costs no job: the files and modules that came from the master, the pillar where \
         `minion_pillar_cache` says so, outputs of commands that were too large, what files were before functions changed them, \
         and the note of a planned restart of the machine.",
    ),
    common::state_dir(
        "/var/lib/saline/minion",
        "The folder of what must not be lost: the spool with the jobs that were begun and the returns that the master has not \
         acknowledged, large returns of jobs that outlive the minion, the jobs that functions added to the schedule, and when jobs \
         of the schedule ran.",
    ),
    common::sock_dir("/run/saline/minion"),
    common::pidfile(),
    common::metrics_listen(),
    common::log_level(),
    common::log_level_logfile(),
    common::log_fmt_console(),
    common::log_fmt_logfile(),
    common::log_file(
        "The file of the log, usually `/var/log/saline/minion`. Not set: the standard error output.",
    ),
    common::default_include(MinionConfig::DEFAULT_INCLUDE),
    common::include(),
];

/// Reads the absolute paths of folders.
fn folders(given: &Given<'_>) -> Result<Vec<PathBuf>, YamlError> {
    given.texts("the absolute path of a folder, or a list of them", |path| {
        let path = PathBuf::from(path);
        match path.is_absolute() {
            true => Ok(path),
            false => Err(format!("{} is not an absolute path", path.display())),
        }
    })
}

/// Merges `new` into `old`: mappings inside are merged, everything else is replaced.
fn merge(old: &mut Vec<(String, Value)>, new: Vec<(String, Value)>) {
    for (name, value) in new {
        match (old.iter_mut().find(|(known, _)| *known == name), value) {
            (Some((_, Value::Map(old))), Value::Map(new)) => merge(old, new),
            (Some((_, old)), value) => *old = value,
            (None, value) => old.push((name, value)),
        }
    }
}
