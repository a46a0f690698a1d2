//! The options about destinations outside of the master. Those of one destination stand before the options that name it.

use saline_data::nearest;
use saline_data::yaml::YamlError;
use saline_targeting::Glob;

use crate::given::Given;
use crate::{MasterConfig, OptionDoc, PostgresSchema, PostgresTls, ReturnerName, Secrecy, Secret};

/// The kind of value that names destinations.
const NAMES: &str = "executable, http, local, postgres, sqlite3, or a list of them";

/// The value of `master_job_cache` with which Salt keeps jobs on the master itself.
const LOCAL_CACHE: &str = "local_cache";

/// The kind of value that `master_job_cache` takes.
const JOB_CACHES: &str = "local_cache, postgres or sqlite3";

pub(super) const LOCAL_FILE: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.local.file",
    secrecy: Secrecy::Public,
    unit: "path",
    default: "",
    help: "The file of the destination `local`, to which a line of JSON is appended for each record. It may be renamed at any \
           time. See `docs/returners.md`. Not set: there is no such destination.",
    read: |config, given| {
        config.returners.local_file = given.optional(|given| given.path())?;
        Ok(())
    },
};

pub(super) const SQLITE3_DATABASE: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.sqlite3.database",
    secrecy: Secrecy::Public,
    unit: "path",
    default: "",
    help: "The file of the destination `sqlite3`, a database of SQLite. Not set: there is no such destination.",
    read: |config, given| {
        config.returners.sqlite3_database = given.optional(|given| given.path())?;
        Ok(())
    },
};

pub(super) const EXECUTABLE_COMMAND: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.executable.command",
    secrecy: Secrecy::Public,
    unit: "the path of a program, or a list of it and its arguments",
    default: "",
    help: "The program of the destination `executable`. It is started for each batch as the master's user, without a shell, and \
           gets a line of JSON for each record on its standard input. Not set: there is no such destination.",
    read: |config, given| {
        let takes = "the path of a program, or a list of it and its arguments";
        let words = given.optional(|given| given.texts(takes, |word| Ok(word.to_owned())))?;
        let words = words.unwrap_or_default();
        if words
            .first()
            .is_some_and(|program| !program.starts_with('/'))
        {
            return Err(given.refuse("takes the whole path of a program, from / on"));
        }
        config.returners.executable.command = words;
        Ok(())
    },
};

pub(super) const EXECUTABLE_TIMEOUT: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.executable.timeout",
    secrecy: Secrecy::Public,
    unit: "seconds",
    default: "60",
    help: "How long that program may take for a batch. Then it is ended, and gets the batch again later.",
    read: |config, given| {
        config.returners.executable.timeout = given.seconds(false)?;
        Ok(())
    },
};

pub(super) const HTTP_URL: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.http.url",
    secrecy: Secrecy::ByKeys,
    unit: "an address that begins with http:// or https://",
    default: "",
    help: "Where the destination `http` sends its POST requests. Not set: there is no such destination.",
    read: |config, given| {
        let takes = "an address that begins with http:// or https://";
        let url = given.optional(|given| given.checked(takes, url))?;
        config.returners.http.url = url.unwrap_or_default();
        Ok(())
    },
};

pub(super) const HTTP_AUTHORIZATION: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.http.authorization",
    secrecy: Secrecy::Secret,
    unit: "the value of a header",
    default: "",
    help: "The value of the header `Authorization` of these requests, such as `Bearer …`. Not set: they have none.",
    read: |config, given| {
        config.returners.http.authorization = secret(given, "the value of a header")?;
        Ok(())
    },
};

pub(super) const HTTP_AUTHORITIES: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.http.sslrootcert",
    secrecy: Secrecy::Public,
    unit: "path",
    default: "",
    help: "A PEM file with the authorities of the certificate of that server. Not set: those that the system trusts.",
    read: |config, given| {
        config.returners.http.authorities = given.optional(|given| given.path())?;
        Ok(())
    },
};

pub(super) const POSTGRES_HOST: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.postgres.host",
    secrecy: Secrecy::Public,
    unit: "the name or address of a server, or the folder of its Unix socket",
    default: "",
    help: "The server of the destination `postgres`. Not set: there is no such destination.",
    read: |config, given| {
        let takes = "the name or address of a server, or the folder of its Unix socket";
        let host = given.optional(|given| given.text(takes))?;
        config.returners.postgres.host = host.unwrap_or_default().to_owned();
        Ok(())
    },
};

pub(super) const POSTGRES_PORT: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.postgres.port",
    secrecy: Secrecy::Public,
    unit: "a port from 1 to 65535",
    default: "5432",
    help: "The port of that server.",
    read: |config, given| {
        config.returners.postgres.port = given.whole(1..=65_535, "a port from 1 to 65535")?;
        Ok(())
    },
};

pub(super) const POSTGRES_USER: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.postgres.user",
    secrecy: Secrecy::Public,
    unit: "the name of a role",
    default: "salt",
    help: "The role as which the master connects to that server.",
    read: |config, given| {
        config.returners.postgres.user = given.text("the name of a role")?.to_owned();
        Ok(())
    },
};

pub(super) const POSTGRES_PASSWD: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.postgres.passwd",
    secrecy: Secrecy::Secret,
    unit: "a password",
    default: "",
    help: "The password of that role. Not set: the server must do without.",
    read: |config, given| {
        config.returners.postgres.passwd = secret(given, "a password")?;
        Ok(())
    },
};

pub(super) const POSTGRES_DB: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.postgres.db",
    secrecy: Secrecy::Public,
    unit: "the name of a database",
    default: "salt",
    help: "The database on that server.",
    read: |config, given| {
        config.returners.postgres.db = given.text("the name of a database")?.to_owned();
        Ok(())
    },
};

pub(super) const POSTGRES_SCHEMA: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.postgres.schema",
    secrecy: Secrecy::Public,
    unit: "saline or salt",
    default: "saline",
    help: "The tables: `saline` for `saline_jobs`, `saline_returns` and `saline_events`, or `salt` for those of Salt's returner, \
           `jids`, `salt_returns` and `salt_events`, so that what reads these goes on working.",
    read: |config, given| {
        config.returners.postgres.schema = match given.text("saline or salt")? {
            "saline" => PostgresSchema::Saline,
            "salt" => PostgresSchema::Salt,
            _ => return Err(given.wrong("saline or salt")),
        };
        Ok(())
    },
};

pub(super) const POSTGRES_SSLMODE: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.postgres.sslmode",
    secrecy: Secrecy::Public,
    unit: "disable or verify-full",
    default: "",
    help: "Whether the connection uses TLS: `disable`, or `verify-full`, where the server must have a certificate for its name. \
           Not set: `verify-full`, but `disable` for a Unix socket, and for \
           `localhost`, 127.0.0.1 and ::1 where `sslrootcert` is not set.",
    read: |config, given| {
        let takes = "disable or verify-full";
        config.returners.postgres.sslmode = given.optional(|given| match given.text(takes)? {
            "disable" => Ok(PostgresTls::Disable),
            "verify-full" => Ok(PostgresTls::VerifyFull),
            // The other modes of libpq encrypt without knowing for whom.
            _ => Err(given.wrong(takes)),
        })?;
        Ok(())
    },
};

pub(super) const POSTGRES_AUTHORITIES: OptionDoc<MasterConfig> = OptionDoc {
    name: "returner.postgres.sslrootcert",
    secrecy: Secrecy::Public,
    unit: "path",
    default: "",
    help: "A PEM file with the authorities of the certificate of that server. Not set: those that the system trusts.",
    read: |config, given| {
        config.returners.postgres.authorities = given.optional(|given| given.path())?;
        Ok(())
    },
};

pub(super) const EXT_JOB_CACHE: OptionDoc<MasterConfig> = OptionDoc {
    name: "ext_job_cache",
    secrecy: Secrecy::Public,
    unit: NAMES,
    default: "",
    help: "The destinations that get every job and every return, beside the job store of the master. The master delivers, not the \
           minions: see `docs/returners.md`. Not set: none.",
    read: |config, given| {
        config.returners.ext_job_cache = names(config, given)?;
        Ok(())
    },
};

pub(super) const EVENT_RETURN: OptionDoc<MasterConfig> = OptionDoc {
    name: "event_return",
    secrecy: Secrecy::Public,
    unit: NAMES,
    default: "",
    help: "The destinations that get the events, which are kept on the disk of the master until then, as those of \
           `durable_events` are. Not set: none.",
    read: |config, given| {
        config.returners.event_return = names(config, given)?;
        Ok(())
    },
};

pub(super) const EVENT_RETURN_WHITELIST: OptionDoc<MasterConfig> = OptionDoc {
    name: "event_return_whitelist",
    secrecy: Secrecy::Public,
    unit: "a glob or a list of them",
    default: "",
    help: "The tags of the events that `event_return` is about. A `*` crosses slashes. The event that a minion fires as `my/x` is \
           matched by `my/*` and by `salt/minion/*/my/*`. Not set: all but those of runs and batches.",
    read: |config, given| {
        config.returners.event_return_whitelist = globs(given)?;
        Ok(())
    },
};

pub(super) const EVENT_RETURN_BLACKLIST: OptionDoc<MasterConfig> = OptionDoc {
    name: "event_return_blacklist",
    secrecy: Secrecy::Public,
    unit: "a glob or a list of them",
    default: "",
    help: "The tags of events that `event_return` leaves out, also of those in `event_return_whitelist`. Not set: none.",
    read: |config, given| {
        config.returners.event_return_blacklist = globs(given)?;
        Ok(())
    },
};

pub(super) const EVENT_RETURN_QUEUE: OptionDoc<MasterConfig> = OptionDoc {
    name: "event_return_queue",
    secrecy: Secrecy::Public,
    unit: "events",
    default: "0",
    help: "Taken as Salt has it, and without effect: events are always delivered in batches.",
    read: |_, given| {
        let _: u64 = given.whole(0..=i64::MAX, "a number of events")?;
        Ok(())
    },
};

pub(super) const EVENT_RETURN_QUEUE_MAX_SECONDS: OptionDoc<MasterConfig> = OptionDoc {
    name: "event_return_queue_max_seconds",
    secrecy: Secrecy::Public,
    unit: "seconds",
    default: "0",
    help: "Taken as Salt has it, and without effect: what is new is delivered within a second.",
    read: |_, given| {
        given.seconds(true)?;
        Ok(())
    },
};

pub(super) const MASTER_JOB_CACHE: OptionDoc<MasterConfig> = OptionDoc {
    name: "master_job_cache",
    secrecy: Secrecy::Public,
    unit: JOB_CACHES,
    default: LOCAL_CACHE,
    help: "The database that gets every job and every return, as with `ext_job_cache`, and where `saline-run jobs.*` looks up the \
           jobs that the job store of the master has no more: `postgres` or `sqlite3`. `local_cache`: there is none, and these \
           jobs are gone. See `docs/returners.md`.",
    read: |config, given| {
        config.returners.master_job_cache = match given.text(JOB_CACHES)? {
            LOCAL_CACHE => None,
            text => Some(job_cache(config, text).map_err(|why| given.refuse(why))?),
        };
        Ok(())
    },
};

/// Returns the database that `master_job_cache` names, which must be configured.
fn job_cache(config: &MasterConfig, text: &str) -> Result<ReturnerName, String> {
    match ReturnerName::from_name(text) {
        Some(name) if !name.is_database() => Err(format!(
            "takes {JOB_CACHES}: jobs cannot be read back from {name}, which `ext_job_cache: {name}` delivers to"
        )),
        Some(name) if !config.returners.is_configured(name) => Err(format!(
            "names {name}, which needs {:?}",
            name.needed_option()
        )),
        Some(name) => Ok(name),
        None => Err(format!("takes {JOB_CACHES}, not {text:?}")),
    }
}

/// Returns a secret text.
fn secret(given: &Given<'_>, takes: &str) -> Result<Option<Secret>, YamlError> {
    given.optional(|given| given.text(takes).map(Secret::from))
}

/// Returns the destinations that the value names, each of which must be configured.
fn names(config: &MasterConfig, given: &Given<'_>) -> Result<Vec<ReturnerName>, YamlError> {
    let named = given.optional(|given| {
        given.texts(NAMES, |text| {
            let name = ReturnerName::from_name(text).ok_or_else(|| unknown(text))?;
            match config.returners.is_configured(name) {
                true => Ok(name),
                false => Err(format!(
                    "names {name}, which needs {:?}",
                    name.needed_option()
                )),
            }
        })
    })?;
    let mut named = named.unwrap_or_default();
    named.sort_unstable();
    named.dedup();
    Ok(named)
}

fn unknown(text: &str) -> String {
    let known = ReturnerName::ALL.map(ReturnerName::as_str);
    let hint = match nearest(text, known) {
        Some(near) => format!("did you mean {near:?}? "),
        None => String::new(),
    };
    format!(
        "names no destination: {text:?}; {hint}known are: {}",
        known.join(", ")
    )
}

fn globs(given: &Given<'_>) -> Result<Vec<String>, YamlError> {
    let globs = given.optional(|given| {
        given.texts("a glob or a list of them", |text| {
            match Glob::compile(text) {
                Ok(_) => Ok(text.to_owned()),
                Err(error) => Err(format!("takes globs, and {text:?} is not one: {error}")),
            }
        })
    })?;
    Ok(globs.unwrap_or_default())
}

fn url(text: &str) -> Result<String, String> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let rest = rest.ok_or("takes an address that begins with http:// or https://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "takes an address without a user and a password: `returner.http.authorization` has the value of the header that \
             tells them"
                .to_owned(),
        );
    }
    if authority.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err("takes an address with the name of a server, and without spaces".to_owned());
    }
    // An address of IPv6 has colons between its brackets.
    let after_host = authority.rsplit(']').next().unwrap_or_default();
    if let Some((_, port)) = after_host.split_once(':')
        && port.parse::<u16>().unwrap_or_default() == 0
    {
        return Err("takes an address whose port is a number from 1 to 65535".to_owned());
    }
    Ok(text.to_owned())
}
