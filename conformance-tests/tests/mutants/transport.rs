//! The mutant itself, and what it does to places and contexts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use saline_protocol::layer;
use saline_protocol::transport::{
    Address, Capabilities, Client, Context, Counters, Endpoint, Error, ErrorKind, Metric,
    MetricsSink, OptionKind, OptionSpec, Result, ServeAt, Server, ServerControl, Transport,
};

use tokio_util::sync::CancellationToken;

use crate::client::{Nobody, WrongClient};
use crate::fault::Fault;
use crate::server::{self, Shared};

const fn option(name: &'static str, kind: OptionKind, secret: bool) -> OptionSpec {
    OptionSpec {
        name,
        kind,
        secret,
        help: "of a mutant",
    }
}

const INVENTED: &[OptionSpec] = &[option("no_such_option", OptionKind::Bool, false)];

const TWICE: &[OptionSpec] = &[
    option("password", OptionKind::Text, false),
    option("password", OptionKind::Text, true),
];

/// Counts everything but the links that end.
#[derive(Debug)]
struct Uncounted(Arc<dyn MetricsSink>);

impl MetricsSink for Uncounted {
    fn add(&self, metric: Metric, by: u64) {
        if metric != Metric::Disconnected {
            self.0.add(metric, by);
        }
    }
}

/// A transport with a fault.
#[derive(Debug)]
pub struct Wrong {
    inner: Arc<dyn Transport>,
    fault: Fault,
    running: Mutex<HashMap<String, Arc<dyn ServerControl>>>,
    kept: Arc<Mutex<Vec<Server>>>,
    last: Arc<Mutex<Option<Arc<dyn Client>>>>,
    asked: AtomicUsize,
    shared: Arc<Shared>,
}

impl Wrong {
    /// `inner` in its layers, and round them `fault`.
    pub fn around(inner: Arc<dyn Transport>, fault: Fault) -> Arc<dyn Transport> {
        let inner = match fault {
            Fault::NoLayers => inner,
            _ => layer::wrap(inner),
        };
        Self::declaring(inner, fault)
    }

    /// `inner` without layers, for what it declares with `fault`.
    pub fn declaring(inner: Arc<dyn Transport>, fault: Fault) -> Arc<dyn Transport> {
        let mut wrong = Self::bare(inner);
        wrong.fault = fault;
        Arc::new(wrong)
    }

    fn bare(inner: Arc<dyn Transport>) -> Self {
        Self {
            inner,
            fault: Fault::None,
            running: Mutex::default(),
            kept: Arc::default(),
            last: Arc::default(),
            asked: AtomicUsize::new(0),
            shared: Arc::default(),
        }
    }

    fn spoil(&self, mut context: Context) -> Context {
        match self.fault {
            Fault::LimitPlusOne => context.limits.max_message += 1,
            Fault::HandOutAll => context.limits.requests_unanswered = 100_000,
            Fault::IgnoreCancel => context.cancel = CancellationToken::new(),
            Fault::CountNothing => context.metrics = Counters::new(),
            Fault::LeakDescriptors => {
                std::mem::forget(std::fs::File::open("/dev/null").unwrap());
            }
            Fault::LeakMemory => std::mem::forget(vec![1_u8; 1024]),
            Fault::TopicsEach => context.limits.subscriptions_per_connection *= 10,
            Fault::BareSpawn => drop(
                // The tracker of nobody.
                Context::default()
                    .tracker
                    .spawn(std::future::pending::<()>()),
            ),
            Fault::LeakTask => {
                let cancel = context.cancel.clone();
                context
                    .tracker
                    .spawn(async move { cancel.cancelled().await });
            }
            _ => {}
        }
        context
    }
}

#[async_trait]
impl Transport for Wrong {
    fn scheme(&self) -> &'static str {
        self.inner.scheme()
    }

    fn capabilities(&self) -> Capabilities {
        let mut declared = self.inner.capabilities();
        match self.fault {
            Fault::AnyLimit => declared.max_message = 1 << 20,
            Fault::TakePaths => declared.local_endpoints = false,
            _ => {}
        }
        if self.fault == Fault::ChangeMind {
            declared.max_message -= self.asked.fetch_add(1, Ordering::Relaxed);
        }
        declared
    }

    fn options(&self) -> &'static [OptionSpec] {
        match self.fault {
            Fault::InventOption => INVENTED,
            Fault::DeclareTwice => TWICE,
            _ => self.inner.options(),
        }
    }

    async fn serve(&self, at: ServeAt, context: Context) -> Result<Server> {
        let name = at.requests.to_string();
        let mut context = self.spoil(context);
        let mut limits = context.limits.clone();
        if matches!(self.fault, Fault::AcceptLarge | Fault::AcceptQuietly) {
            context.limits.max_message *= 100;
        }
        if self.fault == Fault::AcceptLarge {
            limits = context.limits.clone();
        }
        if self.fault == Fault::UncountedEnds {
            context.metrics = Arc::new(Uncounted(context.metrics));
        }
        let mut served = self.inner.serve(at.clone(), context.clone()).await;
        if self.fault == Fault::StealName && served.is_err() {
            let victim = self.running.lock().unwrap().remove(&name);
            if let Some(victim) = victim {
                let _ = victim.shutdown(Duration::ZERO).await;
            }
            served = self.inner.serve(at, context).await;
        }
        let mut server = served?;
        // Only then: whoever holds a part of a server keeps it up.
        if matches!(self.fault, Fault::StealName | Fault::HoldParts) {
            self.running.lock().unwrap().insert(
                server.bound.requests.to_string(),
                Arc::clone(&server.control),
            );
        }
        if self.fault == Fault::HidePort {
            server.bound.requests = server.bound.requests.with_port(0);
        }
        let inner = Arc::clone(&self.inner);
        Ok(server::spoil(
            server,
            self.fault,
            &limits,
            inner,
            Arc::clone(&self.kept),
            Arc::clone(&self.shared),
        ))
    }

    async fn connect(&self, endpoint: &Endpoint, context: Context) -> Result<Arc<dyn Client>> {
        let mut endpoint = endpoint.clone();
        if let Address::Network { addresses, .. } = &mut endpoint.address {
            let known = ["127.0.0.1", "::1", "localhost"];
            if self.fault == Fault::NoLoopback && known.contains(&addresses[0].host.as_str()) {
                return Err(Error::new(ErrorKind::Unreachable, "no such host"));
            }
            if self.fault == Fault::FirstAddressOnly {
                addresses.truncate(1);
            }
            if self.fault == Fault::ReverseAddresses {
                addresses.reverse();
            }
        }
        let connected = self
            .inner
            .connect(&endpoint, self.spoil(context.clone()))
            .await;
        match connected {
            Err(error)
                if self.fault == Fault::ConnectLazily && error.kind() == ErrorKind::Unreachable =>
            {
                Ok(Arc::new(Nobody))
            }
            client => {
                let client = client?;
                if self.fault == Fault::MixServers {
                    *self.last.lock().unwrap() = Some(Arc::clone(&client));
                }
                let last = Arc::clone(&self.last);
                Ok(Arc::new(WrongClient::new(
                    client,
                    self.fault,
                    context,
                    last,
                    Arc::clone(&self.shared),
                )))
            }
        }
    }
}
