//! Opens the files of a master: its keys, jobs, grains, kept events, mine, tokens and logins.

use saline_config::MasterConfig;
use saline_protocol::transport::Context;

use crate::clock::MasterClock;
use crate::error::MasterError;
use crate::events::{DurableEvents, DurableSettings, ReturnedTags, TagFilter};
use crate::grains::GrainsTable;
use crate::jobs::{JobStore, StoreSettings, store_size};
use crate::keys::{KeyStore, OperatorStore, TokenStore, root_key};
use crate::logins::LoginStore;
use crate::mine::MineFile;
use crate::reactions::filter_of;

/// The stores of a master, which are opened before it serves.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(crate) keys: KeyStore,
    pub(crate) operators: OperatorStore,
    pub(crate) jobs: JobStore,
    pub(crate) grains: GrainsTable,
    pub(crate) durable: DurableEvents,
    pub(crate) mine: MineFile,
    pub(crate) tokens: TokenStore,
    pub(crate) logins: LoginStore,
    pub(crate) clock: MasterClock,
}

impl Stores {
    /// Opens the key stores, the job store, the grains, the mine, the tokens and the logins. Blocks on the disk.
    pub(crate) fn open(config: &MasterConfig, context: &Context) -> Result<Self, MasterError> {
        let keys = KeyStore::open(&config.paths.pki_dir, context.clock)?;
        let operators = OperatorStore::open(&config.paths.pki_dir, root_key(config)?)?;
        let settings = StoreSettings {
            folder: config.job_store(),
            secrets_key: config.secrets_key_file(),
            keep: config.keep_jobs,
            max_bytes: store_size::in_bytes(config.job_store_size, &config.job_store()),
            largest_payload: config.max_message_size as u64,
            cache_bytes: config.job_store_cache,
            heartbeat: config.heartbeat_interval,
        };
        let clock = MasterClock::new(context.clock);
        let jobs = JobStore::open(settings, clock.clone())?;
        let events = DurableSettings {
            folder: config.event_store(),
            filter: durable_filter(config),
            returned: returned_tags(config),
            is_followed: !config.returners.configured().is_empty(),
            reacted: filter_of(&config.reactor.reactions),
            most_bytes: config.durable_events_size,
        };
        let durable = DurableEvents::open(events, clock.clone())?;
        let grains = GrainsTable::open(&config.grains_file(), context);
        let mine = MineFile::open(&config.mine_file())?;
        let tokens = TokenStore::open(&config.token_file())?;
        let logins = LoginStore::open(&config.login_file())?;
        Ok(Self {
            mine,
            tokens,
            logins,
            keys,
            operators,
            jobs,
            grains,
            durable,
            clock,
        })
    }
}

/// Returns the filter of the events that are kept.
pub(crate) fn durable_filter(config: &MasterConfig) -> TagFilter {
    // The loader has compiled the globs.
    TagFilter::compile(&config.durable_events).unwrap_or_default()
}

/// Returns the tags of the events that destinations outside of the master get; none without such a destination.
fn returned_tags(config: &MasterConfig) -> Option<ReturnedTags> {
    let returners = &config.returners;
    // The loader has compiled the globs.
    let compile = |globs: &[String]| TagFilter::compile(globs).unwrap_or_default();
    let wanted = compile(&returners.event_return_whitelist);
    let left_out = compile(&returners.event_return_blacklist);
    (!returners.event_return.is_empty()).then(|| ReturnedTags::new(wanted, left_out))
}
