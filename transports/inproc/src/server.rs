//! A server: how it starts, hands requests out, and ends.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use saline_protocol::transport::{
    Answer, Context, Error, ErrorKind, Peer, Reply, ReplyRoute, Request, Requests, Result, ServeAt,
    Server, ServerControl,
};

use crate::hub::Hub;
use crate::publisher::InProcPublisher;
use crate::state::ServerCore;

/// Starts a server at `at`.
pub(crate) fn serve(hub: &Arc<Hub>, at: ServeAt, context: Context) -> Result<Server> {
    let core = ServerCore::new(context);
    let bound = ServeAt {
        requests: hub.bind(&at.requests, &core)?,
        publications: None,
    };
    let guard = CloseOnDrop {
        core: Arc::clone(&core),
        hub: Arc::clone(hub),
    };
    let task = core.context.spawn(end(guard));
    let alive = Arc::new(core.drain.clone().drop_guard());
    Ok(Server::new(
        Box::new(InProcRequests {
            core: Arc::clone(&core),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(InProcPublisher {
            core: Arc::clone(&core),
            _alive: Arc::clone(&alive),
        }),
        Arc::new(InProcControl {
            core,
            task: tokio::sync::Mutex::new(Some(task)),
            _alive: alive,
        }),
        bound,
    ))
}

/// Lives in the server's task, so that the server goes however the task ends.
struct CloseOnDrop {
    core: Arc<ServerCore>,
    hub: Arc<Hub>,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.hub.release(&self.core);
        self.core.drain.cancel();
        self.core.permits.close();
        let mut state = self.core.state();
        state.closed = true;
        state.cut_short = state.owes_an_answer();
        let links: Vec<u64> = state.links.keys().copied().collect();
        drop(state);
        for connection in links {
            self.core.cut(connection);
        }
        self.core.arrived.notify_one();
    }
}

/// Waits for a shutdown, then for the answers that are owed; dropping the guard does the rest.
async fn end(guard: CloseOnDrop) {
    let core = &guard.core;
    core.drain.cancelled().await;
    guard.hub.release(core);
    core.arrived.notify_one();
    let deadline = {
        let mut state = core.state();
        // Taken, but nobody has seen them: they end with their links.
        for (token, _) in std::mem::take(&mut state.queue) {
            state.unanswered.remove(&token);
        }
        state.deadline
    };
    if let Some(deadline) = deadline {
        let _ = core.context.clock.deadline(deadline, core.settled()).await;
    }
}

/// Hands requests out.
#[derive(Debug)]
struct InProcRequests {
    core: Arc<ServerCore>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl Requests for InProcRequests {
    async fn next(&mut self) -> Option<Request> {
        loop {
            if self.core.drain.is_cancelled() {
                return None;
            }
            if let Some(request) = self.try_next() {
                return Some(request);
            }
            self.core.arrived.notified().await;
        }
    }
}

impl InProcRequests {
    fn try_next(&mut self) -> Option<Request> {
        let core = &self.core;
        if core.drain.is_cancelled() {
            return None;
        }
        let (token, payload) = core.first()?;
        let route = Arc::clone(core) as Arc<dyn ReplyRoute>;
        let reply = Reply::new(route, token, core.context.limits.max_message);
        Some(Request::new(
            Peer::new(token.connection, None),
            payload,
            reply,
        ))
    }
}

impl Drop for InProcRequests {
    fn drop(&mut self) {
        let queued = {
            let mut state = self.core.state();
            state.unread = true;
            std::mem::take(&mut state.queue)
        };
        for (token, _) in queued {
            self.core.answer(token, Answer::NoReply);
        }
    }
}

/// Cuts peers and ends the server.
#[derive(Debug)]
struct InProcControl {
    core: Arc<ServerCore>,
    /// The server's task, until a shutdown has joined it.
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    _alive: Arc<DropGuard>,
}

#[async_trait]
impl ServerControl for InProcControl {
    fn disconnect(&self, peer: Peer) -> bool {
        self.core.cut(peer.connection)
    }

    async fn shutdown(&self, deadline: Duration) -> Result<()> {
        let until = self.core.context.clock.after(deadline);
        self.core.state().deadline.get_or_insert(until);
        self.core.drain.cancel();
        let mut task = self.task.lock().await;
        if let Some(running) = task.as_mut() {
            // It ends by itself or by the context's token; both are a shutdown.
            let _ = running.await;
            *task = None;
        }
        if self.core.state().cut_short {
            return Err(Error::new(
                ErrorKind::TimedOut,
                "requests were unanswered at the deadline of the shutdown",
            ));
        }
        Ok(())
    }
}
