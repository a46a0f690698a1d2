//! The questions that a daemon's loop answers while it runs: whether the daemon is alive, and how healthy it is.

use std::path::Path;

use saline_protocol::transport::Clock;
use tokio::time::Interval;

use crate::health::{HealthRequest, HealthSocket};
use crate::service_manager::ServiceManager;

/// A question to a daemon.
#[derive(Debug)]
#[non_exhaustive]
pub enum Question {
    /// The service manager expects to be told that the daemon is alive ([`ServiceManager::alive`]). A daemon that finds itself stuck
    /// does not answer, and is restarted.
    Alive,
    /// A client asks for the daemon's health.
    Health(HealthRequest),
}

/// The service manager's watchdog, and the socket for the daemon's health.
#[derive(Debug)]
pub struct Supervision {
    /// The service manager.
    pub manager: ServiceManager,
    watchdog: Option<Interval>,
    socket: Option<HealthSocket>,
}

impl Supervision {
    /// Begins to take questions, also over a socket in `sock_dir`, whose lock this process holds. A daemon whose socket cannot be made
    /// goes on without it. Needs a running runtime.
    pub fn start(sock_dir: &Path) -> Self {
        let manager = ServiceManager::of_this_process();
        let socket = HealthSocket::bind(sock_dir).inspect_err(|error| {
            tracing::warn!(
                "--health will get no answer: its socket in {} cannot be made: {error}",
                sock_dir.display()
            );
        });
        Self {
            watchdog: manager
                .watchdog_interval()
                .map(|interval| Clock.interval(interval)),
            manager,
            socket: socket.ok(),
        }
    }

    /// Returns the next question.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Question {
        let Self {
            watchdog, socket, ..
        } = self;
        let alive = async {
            match watchdog {
                Some(interval) => interval.tick().await,
                None => std::future::pending().await,
            };
        };
        let health = async {
            let Some(socket) = socket else {
                return std::future::pending().await;
            };
            loop {
                match socket.next().await {
                    Ok(request) => return request,
                    // For example, no descriptors are left.
                    Err(error) => {
                        tracing::debug!("a request for the health cannot be accepted: {error}");
                        Clock.pause(std::time::Duration::from_secs(1)).await;
                    }
                }
            }
        };
        tokio::select! {
            () = alive => Question::Alive,
            request = health => Question::Health(request),
        }
    }
}
