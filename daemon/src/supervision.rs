//! What others ask of a daemon's loop while it runs: whether it is alive, and how it is.

use std::path::Path;

use saline_protocol::transport::Clock;
use tokio::time::Interval;

use crate::health::{HealthAsker, HealthSocket};
use crate::service_manager::ServiceManager;

/// A question to a daemon.
#[derive(Debug)]
#[non_exhaustive]
pub enum Question {
    /// The service manager wants to be told that the daemon is alive ([`ServiceManager::alive`]). Whoever finds that the daemon
    /// is not, does not tell.
    Alive,
    /// Somebody asks for the daemon's health.
    Health(HealthAsker),
}

/// The service manager, and those who ask for the health of the daemon.
#[derive(Debug)]
pub struct Supervision {
    /// The service manager.
    pub manager: ServiceManager,
    watchdog: Option<Interval>,
    socket: Option<HealthSocket>,
}

impl Supervision {
    /// Begins to take questions, over a socket in `sock_dir`, whose lock this process holds. A daemon whose socket cannot be made
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
                    Ok(asker) => return asker,
                    // There are no descriptors left, for example.
                    Err(error) => {
                        tracing::debug!("who asks for the health is not let in: {error}");
                        Clock.pause(std::time::Duration::from_secs(1)).await;
                    }
                }
            }
        };
        tokio::select! {
            () = alive => Question::Alive,
            asker = health => Question::Health(asker),
        }
    }
}
