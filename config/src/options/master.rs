//! The table of a master's options.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use saline_targeting::{Glob, Nodegroups};

use super::{
    access_rules, common, external_auth, file_roots, mine, nodegroups, pillar_sources, reactor,
    rest_cherrypy, returners, schedule,
};
use crate::given::LONGEST;
use crate::role::Role;
use crate::{JobStoreSize, MasterConfig, OptionDoc, Secrecy};

/// The shortest `heartbeat_interval`: below it, delays of the network alone would make minions count as gone.
const MIN_HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);

pub(super) const OPTIONS: &[OptionDoc<MasterConfig>] = &[
    OptionDoc {
        name: "interface",
        secrecy: Secrecy::Public,
        unit: "address",
        default: "0.0.0.0",
        help: "The address to listen on; `'::'` for IPv6.",
        read: |config, given| {
            config.interface = given.checked("an address to listen on", |text| {
                if text.contains(|c: char| c.is_whitespace() || c == '/') {
                    Err(format!("takes an address to listen on, not {text:?}"))
                } else if Path::new("/sys/class/net").join(text).exists() && text.parse::<IpAddr>().is_err() {
                    Err(format!(
                        "takes an address to listen on, and {text:?} is the name of a network interface: `ip -brief address show \
                         {text}` prints its addresses"
                    ))
                } else {
                    Ok(text.to_owned())
                }
            })?;
            Ok(())
        },
    },
    OptionDoc {
        name: "publish_port",
        secrecy: Secrecy::Public,
        unit: "port, 0 for any free one",
        default: "4505",
        help: "The port for publications, on transports that use a second port for them.",
        read: |config, given| {
            config.publish_port = given.port()?;
            Ok(())
        },
    },
    OptionDoc {
        name: "ret_port",
        secrecy: Secrecy::Public,
        unit: "port, 0 for any free one",
        default: "4506",
        help: "The port for requests, and for everything on transports that use one port.",
        read: |config, given| {
            config.ret_port = given.port()?;
            Ok(())
        },
    },
    common::transport(
        "The transports to serve, all at once. Not set: the default of this build. Transport options \
         go in a section named after the transport, and so do `ret_port` and `publish_port` of each \
         transport beside the first.",
    ),
    common::ipc_transport(
        "The transport of the local sockets. Not set: the default of this build.",
    ),
    OptionDoc {
        name: "worker_threads",
        secrecy: Secrecy::Public,
        unit: "threads, from 1 to 1024",
        default: "",
        help: "The number of threads of the runtime. Not set: one for each core.",
        read: |config, given| {
            config.worker_threads = given
                .optional(|given| given.whole(1..=1024, "a number of threads from 1 to 1024"))?;
            Ok(())
        },
    },
    common::user(
        "The user that the master switches to when root starts it; it keeps no right of root's. Files that only root may \
         read are read before: the configuration, and the keys of `ssl`. `pki_dir`, `cachedir`, `state_dir` and `sock_dir` must \
         belong to that user. Not set: the user that starts it.",
    ),
    OptionDoc {
        name: "auto_accept",
        secrecy: Secrecy::Public,
        unit: "True or False",
        default: "False",
        help: "Accept the key of every new minion. For tests and closed networks.",
        read: |config, given| {
            config.auto_accept = given.flag()?;
            Ok(())
        },
    },
    OptionDoc {
        name: "autosign_file",
        secrecy: Secrecy::Public,
        unit: "path",
        default: "",
        help: "A file with ids whose new keys are accepted: an id, a glob or a regular expression over whole ids in each line, \
               `#` for comments. It is read again when it has changed. Nobody but root and the master's user may be able to \
               change it, or it accepts nobody. Whoever reaches the master first under such an id is accepted: see \
               `docs/enrolment.md`. Not set: none.",
        read: |config, given| {
            config.autosign_file = given.optional(|given| given.path())?;
            Ok(())
        },
    },
    OptionDoc {
        name: "autoreject_file",
        secrecy: Secrecy::Public,
        unit: "path",
        default: "",
        help: "The same for ids whose new and pending keys are rejected, whatever else would accept them. While it cannot be read, no \
               key is accepted but by an operator. Not set: none.",
        read: |config, given| {
            config.autoreject_file = given.optional(|given| given.path())?;
            Ok(())
        },
    },
    OptionDoc {
        name: "open_mode",
        secrecy: Secrecy::Public,
        unit: "True or False",
        default: "False",
        help: "Accept every key, even one that differs from the known key of its id. For \
               emergencies only.",
        read: |config, given| {
            config.open_mode = given.flag()?;
            Ok(())
        },
    },
    OptionDoc {
        name: "timeout",
        secrecy: Secrecy::Public,
        unit: "seconds",
        default: "5",
        help: "How long the command line waits for minions that show no sign of life.",
        read: |config, given| {
            config.timeout = given.seconds(false)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "keep_jobs_seconds",
        secrecy: Secrecy::Public,
        unit: "seconds",
        default: "86400",
        help: "How long jobs and their returns are kept; 0 for fifty years.",
        read: |config, given| {
            let time = given.seconds(true)?;
            config.keep_jobs = if time.is_zero() { LONGEST } else { time };
            Ok(())
        },
    },
    OptionDoc {
        name: "job_store_size",
        secrecy: Secrecy::Public,
        unit: "a number of bytes (0 means unlimited)",
        default: "",
        help: "The size of all files of the store from which the oldest jobs are removed before keep_jobs_seconds. Not set: a quarter of the file system that holds the store.",
        read: |config, given| {
            let size = given.optional(|given| {
                given.bytes(0..=i64::MAX, "a number of bytes (0 means unlimited)")
            })?;
            config.job_store_size = match size {
                None => JobStoreSize::QuarterOfDisk,
                Some(0) => JobStoreSize::Unbounded,
                Some(size) => JobStoreSize::Bytes(size),
            };
            Ok(())
        },
    },
    OptionDoc {
        name: "job_store_cache",
        secrecy: Secrecy::Public,
        unit: "bytes, from 65536 to 2147483647",
        default: "8388608",
        help: "The memory in which a file of the job store is cached for writing; for reading it takes a \
               quarter of it. One file is usually open, at most four.",
        read: |config, given| {
            config.job_store_cache = given.bytes(
                65_536..=i64::from(i32::MAX),
                "bytes, from 65536 to 2147483647",
            )?;
            Ok(())
        },
    },
    OptionDoc {
        name: "heartbeat_interval",
        secrecy: Secrecy::Public,
        unit: "seconds",
        default: "15",
        help: "How often minions send a heartbeat, 0.1 or more. Minions take the value from their master.",
        read: |config, given| {
            config.heartbeat_interval = given.seconds_at_least(MIN_HEARTBEAT_INTERVAL)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "job_ttl",
        secrecy: Secrecy::Public,
        unit: "seconds",
        default: "60",
        help: "How long after its publication a minion may begin a job.",
        read: |config, given| {
            config.job_ttl = given.seconds(false)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "batch_safe_limit",
        secrecy: Secrecy::Public,
        unit: "minions, 0 for never",
        default: "0",
        help: "A job that matches at least this many minions is carried out in batches, even if nobody asked for \
               it with `-b`.",
        read: |config, given| {
            config.batch_safe_limit =
                given.whole(0..=i64::from(u32::MAX), "a number of minions, 0 for never")?;
            Ok(())
        },
    },
    OptionDoc {
        name: "batch_safe_size",
        secrecy: Secrecy::Public,
        unit: "minions, 1 or more",
        default: "8",
        help: "How many minions such a job is offered to at once.",
        read: |config, given| {
            config.batch_safe_size =
                given.whole(1..=i64::from(u32::MAX), "a number of minions, 1 or more")?;
            Ok(())
        },
    },
    common::max_message_size(),
    common::keepalive_interval(),
    common::ssl(),
    OptionDoc {
        name: "max_minions",
        secrecy: Secrecy::Public,
        unit: "minions",
        default: "0",
        help: "The largest number of connected minions; 0 for no limit.",
        read: |config, given| {
            config.max_minions =
                given.whole(0..=i64::MAX, "a number of minions (0 means unlimited)")?;
            Ok(())
        },
    },
    OptionDoc {
        name: "max_pending_keys",
        secrecy: Secrecy::Public,
        unit: "keys, 1 or more",
        default: "10000",
        help: "The largest number of pending keys, and that of denied keys. When there are so many of a kind, the address that has most \
               of it loses one for a minion at another address; minions whose address is not known count as one \
               address. Other new minions are refused until there is room.",
        read: |config, given| {
            config.max_pending_keys = given.whole(1..=i64::MAX, "a number of keys, 1 or more")?;
            Ok(())
        },
    },
    OptionDoc {
        name: "minion_event_rate",
        secrecy: Secrecy::Public,
        unit: "a number of events a second (0 means unlimited)",
        default: "100",
        help: "What one minion may fire in a second; ten seconds of it may come at once. A minion that fires \
               more is asked to wait, and drops what its own queue does not hold.",
        read: |config, given| {
            let rate: u64 = given.whole(
                0..=i64::MAX,
                "a number of events a second (0 means unlimited)",
            )?;
            config.minion_event_rate = (rate > 0).then_some(rate);
            Ok(())
        },
    },
    OptionDoc {
        name: "minion_event_bytes",
        secrecy: Secrecy::Public,
        unit: "a number of bytes a second (0 means unlimited)",
        default: "8388608",
        help: "How many bytes of data the events of one minion may have in a second; ten seconds of it may come at once.",
        read: |config, given| {
            let rate: u64 = given.bytes(
                0..=i64::MAX,
                "a number of bytes a second (0 means unlimited)",
            )?;
            config.minion_event_bytes = (rate > 0).then_some(rate);
            Ok(())
        },
    },
    OptionDoc {
        name: "durable_events",
        secrecy: Secrecy::Public,
        unit: "a glob or a list of them",
        default: "",
        help: "The tags of events that are kept on the disk until they are older than keep_jobs_seconds, so that \
               `saline-run event.read` misses none: `'*'` for all, `'salt/minion/*/start'`. The event that a minion fires \
               as `my/x` is matched by `my/*` and by `salt/minion/*/my/*`. Returns of jobs are read from the job store. Not \
               set: none are kept.",
        read: |config, given| {
            config.durable_events = given.texts("a glob or a list of them", |text| {
                match Glob::compile(text) {
                    Ok(_) => Ok(text.to_owned()),
                    Err(error) => Err(format!("takes globs, and {text:?} is not one: {error}")),
                }
            })?;
            Ok(())
        },
    },
    OptionDoc {
        name: "durable_events_size",
        secrecy: Secrecy::Public,
        unit: "bytes, 65536 or more",
        default: "67108864",
        help: "The size of all kept events. Beyond it the minion that has most of them loses its oldest, and readers \
               are told how many.",
        read: |config, given| {
            config.durable_events_size = given.bytes(65_536..=i64::MAX, "bytes, 65536 or more")?;
            Ok(())
        },
    },
    OptionDoc {
        name: "pending_key_days",
        secrecy: Secrecy::Public,
        unit: "days, 0 to 36500",
        default: "7",
        help: "A pending or denied key is removed when its minion has not presented it for so long, so that the keys \
               of strangers do not keep new minions out; 0 for never.",
        read: |config, given| {
            let days: u64 = given.whole(0..=36_500, "a number of days, 0 for never")?;
            config.pending_key_expiry = (days > 0).then(|| Duration::from_secs(days * 86_400));
            Ok(())
        },
    },
    OptionDoc {
        name: "publish_session",
        secrecy: Secrecy::Public,
        unit: "seconds, from 60",
        default: "86400",
        help: "How long one group key is used, which seals the jobs for more than 64 minions. Then every connected minion \
               gets a new one.",
        read: |config, given| {
            let seconds: u64 = given.whole(60..=i64::from(u32::MAX), "seconds, from 60")?;
            config.publish_session = Duration::from_secs(seconds);
            Ok(())
        },
    },
    OptionDoc {
        name: "nodegroups",
        secrecy: Secrecy::Public,
        unit: "a mapping of names to compound expressions",
        default: "{}",
        help: "Names for targets: `-N NAME`, or `N@NAME` in a compound expression. A definition is a compound \
               expression or the list of its words, and may name nodegroups of this file or an earlier one; a list without `and`, `or` \
               and `not` names minions. Nodegroups of later files are added.",
        read: |config, given| {
            for (name, definition) in nodegroups::definitions(given)? {
                config.nodegroup_definitions.insert(name, definition);
            }
            config.nodegroups = Nodegroups::new(config.nodegroup_definitions.clone())
                .map_err(|error| given.refuse(error))?;
            Ok(())
        },
    },
    OptionDoc {
        name: "trusted_grains",
        secrecy: Secrecy::Public,
        unit: "the name of a grain or a list of them",
        default: "",
        help: "The grains in which the master believes every minion, as in what `minions.d` assigns. A minion \
               reports them itself all the same, so whoever takes one over can change them. Not set: none.",
        read: |config, given| {
            let names = given.optional(|given| {
                given.texts("the name of a grain or a list of them", |name| {
                    Ok(name.to_owned())
                })
            })?;
            config.trusted_grains = names.unwrap_or_default().into_iter().collect();
            Ok(())
        },
    },
    OptionDoc {
        name: "publisher_acl",
        secrecy: Secrecy::Rules,
        unit: "a mapping of users to lists of rules",
        default: "{}",
        help: "What users of this machine may do who cannot read the root key, over a socket that is served only when \
               somebody is named. A name is that of a user, `group%`, or `*` for everybody else. A rule is a function (a \
               glob or a regular expression) for all minions; a mapping of a pattern of ids (a glob or a regular expression) to a list of functions; a \
               function with patterns of its `args` and `kwargs`; `@runner`, `@jobs`, `@wheel` (keys, and wheels of the HTTP API), `@events` or `@all`. See \
               `docs/operating.md`. Adding the first user takes a restart.",
        read: |config, given| {
            config.publisher_acl = access_rules::read(given, true)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "publisher_acl_blacklist",
        secrecy: Secrecy::Rules,
        unit: "a mapping with lists of users and modules",
        default: "{}",
        help: "Patterns of `users` that `publisher_acl` does not let in, and of `modules`, which are functions that it \
               lets nobody run.",
        read: |config, given| {
            config.publisher_acl_blacklist = access_rules::blacklist(given)?;
            Ok(())
        },
    },
    OptionDoc {
        name: "operators",
        secrecy: Secrecy::Rules,
        unit: "a mapping of operators to lists of rules",
        default: "",
        help: "What the owners of keys in `pki_dir/operators` may do, as rules of `publisher_acl`; no command of Saline \
               uses such a key, only programs of your own can. Not set: \
               everything. As soon as it is set, the owner of a key who is not named may do nothing, unless `*` is named.",
        read: |config, given| {
            config.operators = given.optional(|given| access_rules::read(given, false))?;
            Ok(())
        },
    },
    external_auth::permissive_acl(),
    external_auth::sharedsecret(),
    external_auth::external_auth(),
    external_auth::token_expire(),
    external_auth::netapi_enable_clients(),
    file_roots::file_roots(),
    file_roots::file_env_access(),
    file_roots::file_ignore_regex(),
    file_roots::file_ignore_glob(),
    file_roots::file_buffer_size(),
    file_roots::file_recv(),
    file_roots::file_recv_max_size(),
    pillar_sources::pillar_roots(),
    pillar_sources::pillar_source_merging_strategy(),
    pillar_sources::pillar_merge_lists(),
    pillar_sources::ext_pillar(),
    pillar_sources::pillar_opts(),
    mine::mine_get(),
    returners::LOCAL_FILE,
    returners::SQLITE3_DATABASE,
    returners::EXECUTABLE_COMMAND,
    returners::EXECUTABLE_TIMEOUT,
    returners::HTTP_URL,
    returners::HTTP_AUTHORIZATION,
    returners::HTTP_AUTHORITIES,
    returners::POSTGRES_HOST,
    returners::POSTGRES_PORT,
    returners::POSTGRES_USER,
    returners::POSTGRES_PASSWD,
    returners::POSTGRES_DB,
    returners::POSTGRES_SCHEMA,
    returners::POSTGRES_SSLMODE,
    returners::POSTGRES_AUTHORITIES,
    returners::EXT_JOB_CACHE,
    returners::EVENT_RETURN,
    returners::EVENT_RETURN_WHITELIST,
    returners::EVENT_RETURN_BLACKLIST,
    returners::EVENT_RETURN_QUEUE,
    returners::EVENT_RETURN_QUEUE_MAX_SECONDS,
    returners::MASTER_JOB_CACHE,
    OptionDoc {
        name: "audit_file",
        secrecy: Secrecy::Public,
        unit: "path",
        default: "",
        help: "The file that has a line (JSON) for every order and every decision about a key: who, what, allowed or \
               refused and by which rule. Five older files are kept beside it, `.1` to `.5`. Not set: \
               `/var/log/saline/master-audit.log`.",
        read: |config, given| {
            config.audit_file = given.optional(|given| given.path())?;
            Ok(())
        },
    },
    OptionDoc {
        name: "audit_max_bytes",
        secrecy: Secrecy::Public,
        unit: "bytes, 65536 or more",
        default: "104857600",
        help: "The size at which a new audit file is begun.",
        read: |config, given| {
            config.audit_max_bytes = given.bytes(65_536..=i64::MAX, "bytes, 65536 or more")?;
            Ok(())
        },
    },
    reactor::reactor(),
    reactor::reactor_acl(),
    reactor::reactor_worker_threads(),
    reactor::reactor_worker_hwm(),
    schedule::schedule(
        "Runners that the master runs by the clock, with Salt's keywords: see `docs/schedules.md`. Jobs of later files are \
         added.",
    ),
    schedule::schedule_missed(),
    rest_cherrypy::rest_cherrypy(),
    common::root_dir(),
    common::pki_dir("/etc/saline/pki/master"),
    common::cachedir(
        "/var/cache/saline/master",
        "The folder of data whose loss costs no job: the last known grains of the minions, the files that minions handed in \
         (`file_recv`), the uploads of `saline-cp`, the names of minions' own functions for \
         completion, and the key by which the local `saline` proves who it is.",
    ),
    common::state_dir(
        "/var/lib/saline/master",
        "The folder of what must not be lost: the job store and its copies, the kept events with the places of reactor and \
         returners, what minions left in the mine, the tokens that let minions in, and when jobs of the schedule ran.",
    ),
    common::sock_dir("/run/saline/master"),
    common::pidfile(),
    common::metrics_listen(),
    common::log_level(),
    common::log_level_logfile(),
    common::log_fmt_console(),
    common::log_fmt_logfile(),
    common::log_file(
        "The file of the log, usually `/var/log/saline/master`. Not set: the standard error output.",
    ),
    common::default_include(MasterConfig::DEFAULT_INCLUDE),
    common::include(),
];
