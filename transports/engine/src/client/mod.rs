//! The connecting side: requests and subscriptions over one connection, and the task that keeps it
//! up.

mod connection_tasks;
mod dial;
mod requests;
mod subscriptions;
mod supervisor;

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use saline_protocol::transport::{
    Client, Context, Endpoint, Error, ErrorKind, Instant, Result, Subscriber, TopicFilter,
};
use tokio_util::sync::DropGuard;

use self::dial::dial;
pub use self::requests::ClientRequests;
use self::requests::Requests;
use self::subscriptions::Confirmation;
use self::supervisor::{CloseOnDrop, Supervisor};
use crate::pipe::Dialer;
use crate::state::ClientSubscriptions;
use crate::{GRACE, Lifetime, lock};

/// Connects to `endpoint` with the connections of `dialer`, and keeps connected: what a backend
/// returns from [`Transport::connect`](saline_protocol::transport::Transport::connect).
///
/// # Errors
/// Those of `Transport::connect`.
///
/// # Cancel safety
/// When the future is dropped, nothing stays connected and no task stays.
pub async fn connect<D: Dialer>(
    dialer: D,
    endpoint: &Endpoint,
    context: Context,
) -> Result<Arc<dyn Client>> {
    let until = context.clock.after(dialer.attempt_time(&context.limits));
    let first = tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Err(Error::closed()),
        first = dial(&dialer, endpoint, &context, until) => first?,
    };
    let most = context.limits.subscriptions_per_connection;
    let core = Arc::new(ClientCore {
        requests: Requests::default(),
        subscriptions: Mutex::new(ClientSubscriptions::new(most)),
        certificate: Mutex::new(first.certificate),
        place: Mutex::new(first.place.clone()),
        lifetime: Lifetime::new(context, GRACE),
    });
    let lifetime = &core.lifetime;
    let supervisor = Supervisor {
        core: CloseOnDrop(Arc::clone(&core)),
        endpoint: endpoint.clone(),
        dialer,
    };
    lifetime.spawn(Box::pin(supervisor.run(first)));
    let watching = Arc::clone(&core);
    lifetime.spawn(async move {
        let lifetime = &watching.lifetime;
        tokio::select! {
            () = lifetime.stop.cancelled() => {}
            () = watching.requests.watch_deadlines(lifetime.context.clock) => {}
        }
    });
    Ok(Arc::new(EngineClient {
        _alive: lifetime.cut.clone().drop_guard(),
        core,
    }))
}

/// The state that the handle and the tasks of one client share.
#[derive(Debug)]
struct ClientCore {
    requests: Requests,
    subscriptions: Mutex<ClientSubscriptions<Confirmation>>,
    /// The certificate of the last connection.
    certificate: Mutex<Option<[u8; 32]>>,
    /// The place at which the last connection reached the server.
    place: Mutex<String>,
    lifetime: Arc<Lifetime>,
}

impl ClientCore {
    /// The server has admitted the connection: what was held back for that goes out.
    fn admitted(&self) {
        self.subscriptions().admitted();
        self.requests.hold_above(usize::MAX);
    }

    /// Ends every request and every subscriber.
    fn close(&self) {
        self.requests.close();
        self.subscriptions().close();
    }
}

/// A client of one server. Dropping it without a shutdown ends it as well.
#[derive(Debug)]
struct EngineClient {
    core: Arc<ClientCore>,
    _alive: DropGuard,
}

#[async_trait]
impl Client for EngineClient {
    // Written out, so that the box holds the future of `ask` and not another one around it.
    fn request<'a, 'b>(
        &'a self,
        payload: Bytes,
        deadline: Instant,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes>> + Send + 'b>>
    where
        'a: 'b,
    {
        Box::pin(self.core.requests.ask(payload, deadline))
    }

    async fn subscribe(
        &self,
        at: Option<&Endpoint>,
        topics: Vec<TopicFilter>,
        deadline: Instant,
    ) -> Result<Box<dyn Subscriber>> {
        if let Some(at) = at {
            return Err(Error::new(
                ErrorKind::Config,
                format!("publications come where requests go, so {at} cannot be given"),
            ));
        }
        self.core.subscribe(topics, deadline).await
    }

    fn peer_certificate(&self) -> Option<[u8; 32]> {
        *lock(&self.core.certificate)
    }

    fn server_address(&self) -> Option<String> {
        Some(lock(&self.core.place).clone())
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.core.close();
        self.core.lifetime.shutdown(deadline).await
    }
}

#[cfg(test)]
mod tests;
