//! Starting a server, and its handle for cutting peers and shutting down.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use saline_engine::{Lifetime, departure_queue};
use saline_protocol::transport::{
    Context, Error, ErrorKind, Peer, Result, ServeAt, Server, ServerControl,
};
use tokio_util::sync::DropGuard;

use crate::GRACE;
use crate::accepted::AcceptedConnections;
use crate::bind::{bind, set_up_failed};
use crate::connection_table::ConnectionTable;
use crate::frame::MAX_HEADER;
use crate::monitor::MonitoredSocket;
use crate::native::IntOption;
use crate::numbering::{OpenPublishQueue, PublishQueue};
use crate::parked_answers::ParkedAnswers;
use crate::publication_wire;
use crate::request_exchange::{OpenRequestExchange, RequestExchange, ZmqRequests};
use crate::request_line::RequestLine;
use crate::request_parts::MAX_PART;
use crate::router_task::RouterTask;
use crate::socket::{SharedContext, Socket};
use crate::subscriber_liveness::SubscriberLiveness;
use crate::xpub_task::{XpubTask, ZmqPublisher};

/// The events of a bound socket that its monitor reports.
const EVENTS: u32 = zmq_sys::ZMQ_EVENT_ACCEPTED
    | zmq_sys::ZMQ_EVENT_DISCONNECTED
    | zmq_sys::ZMQ_EVENT_ACCEPT_FAILED
    | zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq_sys::ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

/// Messages of one client that libzmq holds while we do not read: with the size of a part it bounds what a
/// client can make the server hold.
const RECEIVE_QUEUE: i32 = 64;

/// Binds both sockets and starts their tasks.
pub(crate) async fn serve(
    shared: &Arc<SharedContext>,
    at: ServeAt,
    context: Context,
) -> Result<Server> {
    let Some(publications) = &at.publications else {
        return Err(Error::new(
            ErrorKind::Config,
            "ZeroMQ publishes on an endpoint of its own, which must be given",
        ));
    };
    // A client of ours never has more requests unanswered than this, so its answers always fit.
    let answers = i32::try_from(context.limits.requests_in_flight).unwrap_or(i32::MAX / 2);
    let mut router = Socket::new(shared, zmq::ROUTER, &context.limits)?;
    let options = router.options();
    let tuned = options
        .set_router_mandatory(true)
        // libzmq makes room for a message when a stranger announces its length.
        .and_then(|()| options.set_maxmsgsize((MAX_PART + MAX_HEADER) as i64))
        .and_then(|()| options.set_rcvhwm(RECEIVE_QUEUE))
        .and_then(|()| options.set_sndhwm(answers.saturating_add(64)));
    tuned.map_err(set_up_failed)?;
    let (requests_at, requests_path) = bind(&mut router, &at.requests).await?;

    let queue = i32::try_from(context.limits.subscriber_queue_messages).unwrap_or(i32::MAX);
    let mut xpub = Socket::new(shared, zmq::XPUB, &context.limits)?;
    let options = xpub.options();
    // All that comes in are subscriptions, and each byte of one costs libzmq about forty. With room
    // for the command that ZMTP puts around it.
    let longest = publication_wire::MAX_SUBSCRIPTION as i64 + 100;
    options
        .set_sndhwm(queue.max(1))
        .and_then(|()| options.set_maxmsgsize(longest))
        // libzmq takes subscriptions in for as long as there are any, before it returns to its caller:
        // with a longer queue a flood would never let go of the task that counts and cuts.
        .and_then(|()| options.set_rcvhwm(1))
        .map_err(set_up_failed)?;
    let tuned = xpub
        .set(IntOption::XpubVerboser, 1)
        .and_then(|()| xpub.set(IntOption::XpubNodrop, 1));
    tuned.map_err(set_up_failed)?;
    let (publications_at, publications_path) = bind(&mut xpub, publications).await?;

    let lifetime = Lifetime::new(context.clone(), GRACE);
    let alive = Arc::new(lifetime.cut.clone().drop_guard());
    let (departures, departed) = departure_queue(&context.limits);
    let exchange = Arc::new(RequestExchange::new(departures));
    let incarnation = RandomState::new().build_hasher().finish().max(1);
    let queue = Arc::new(PublishQueue::new(&context, incarnation));
    let router_task = RouterTask {
        exchange: OpenRequestExchange(Arc::clone(&exchange)),
        monitored: MonitoredSocket::new(router, EVENTS)?,
        path: requests_path,
        context: context.clone(),
        lifetime: Arc::clone(&lifetime),
        connections: ConnectionTable::new(Arc::clone(&exchange), &context.limits),
        accepted: AcceptedConnections::new(&requests_at, &context),
        unanswered: 0,
        line: RequestLine::default(),
        parked: ParkedAnswers::new(context.clock.now(), &context.limits),
        swept: None,
        is_drained: false,
    };
    let xpub_task = XpubTask {
        queue: OpenPublishQueue(Arc::clone(&queue)),
        monitored: MonitoredSocket::new(xpub, EVENTS)?,
        subscribers: SubscriberLiveness::new(&publications_at, &context),
        accepted: AcceptedConnections::new(&publications_at, &context),
        path: publications_path,
        context: context.clone(),
        lifetime: Arc::clone(&lifetime),
    };
    lifetime.spawn(router_task.run());
    lifetime.spawn(xpub_task.run());
    Ok(Server::new(
        Box::new(ZmqRequests::new(Arc::clone(&exchange), Arc::clone(&alive))),
        Arc::new(ZmqPublisher {
            queue,
            _alive: Arc::clone(&alive),
        }),
        Arc::new(Control {
            exchange,
            lifetime,
            _alive: alive,
        }),
        ServeAt {
            requests: requests_at,
            publications: Some(publications_at),
        },
    )
    .with_departures(departed))
}

/// Cuts and admits peers, and ends the server.
#[derive(Debug)]
struct Control {
    exchange: Arc<RequestExchange>,
    lifetime: Arc<Lifetime>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl ServerControl for Control {
    fn admitted(&self, peer: Peer) -> bool {
        u32::try_from(peer.connection).is_ok_and(|peer| self.exchange.peers.admit(peer))
    }

    fn disconnect(&self, peer: Peer) -> bool {
        u32::try_from(peer.connection).is_ok_and(|peer| self.exchange.peers.cut(peer))
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.lifetime.shutdown(deadline).await
    }
}
