//! What the rooms of a master share. `server` makes it; gate, verbs and maintenance work on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use saline_config::MasterConfig;
use saline_protocol::channel::Identity;
use saline_protocol::channel::record::OVERHEAD;
use saline_protocol::message::{MasterTime, Value, tag};
use saline_protocol::transport::{Clock, Context, Counters};

use crate::events::Events;
use crate::jobs::JobStore;
use crate::keys::{KeyStore, OperatorStore};
use crate::publisher::Publications;
use crate::rate::RatePerId;
use crate::sessions::Sessions;

/// The rooms.
#[derive(Debug)]
pub struct Rooms {
    /// As it was loaded.
    pub config: MasterConfig,
    /// Reads time.
    pub clock: Clock,
    /// Who this master is.
    pub identity: Arc<Identity>,
    /// Owns the tasks of the rooms.
    pub context: Context,
    /// Minions' keys; see [`with_keys`](Self::with_keys).
    pub keys: Arc<KeyStore>,
    /// Operators' keys.
    pub operators: Arc<OperatorStore>,
    /// Jobs and returns.
    pub store: JobStore,
    /// Who is here.
    pub sessions: Arc<Sessions>,
    /// What goes out to minions.
    pub publications: Publications,
    /// How often one id is spoken of on the bus and in the log before it is let in.
    pub auth_rate: RatePerId,
    /// The event bus.
    pub events: Events,
    /// What the transports count.
    pub counters: Arc<Counters>,
    /// When the next offered job expires; `u64::MAX` when none does.
    pub next_expiry: AtomicU64,
}

impl Rooms {
    /// The master's clock, as messages carry it: milliseconds since 1970.
    pub fn now(&self) -> MasterTime {
        let since = self
            .clock
            .wall()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        MasterTime::try_from(since.as_millis()).unwrap_or(MasterTime::MAX)
    }

    /// Does something with the key store, which blocks on the disk, where blocking is allowed.
    /// None when that panicked, which is logged by the runtime.
    ///
    /// # Cancel safety
    /// What was begun is done when the future is dropped.
    pub async fn with_keys<T: Send + 'static>(
        &self,
        act: impl FnOnce(&KeyStore) -> T + Send + 'static,
    ) -> Option<T> {
        let keys = Arc::clone(&self.keys);
        self.context.spawn_blocking(move || act(&keys)).await.ok()
    }

    /// A job expires then: maintenance looks at it in time.
    pub fn expires(&self, at: MasterTime) {
        self.next_expiry.fetch_min(at, Ordering::AcqRel);
    }

    /// The bytes of payload that fit one message with its seal, with some room for what is around them.
    pub fn page_bytes(&self) -> usize {
        self.config.max_message_size.saturating_sub(OVERHEAD + 4096)
    }

    /// Fires `salt/auth` or `salt/key`.
    pub async fn fire_key_event(
        &self,
        tag_name: &'static str,
        id: &str,
        act: &str,
        result: bool,
        identity: Option<&[u8; 32]>,
    ) {
        debug_assert!(tag_name == tag::AUTH || tag_name == tag::KEY);
        let mut data = vec![
            ("id", Value::from(id)),
            ("act", Value::from(act)),
            ("result", Value::from(result)),
        ];
        if let Some(identity) = identity {
            let public = saline_protocol::channel::PublicIdentity(*identity);
            data.push(("pub", Value::from(public.to_pem())));
        }
        self.events.fire(tag_name.to_owned(), data).await;
    }
}
