//! The questions that a daemon's loop answers while it runs: whether the daemon is alive, and how healthy it is.

use std::convert::Infallible;
use std::path::Path;

use saline_protocol::transport::Clock;
use tokio::task::JoinSet;
use tokio::time::Interval;

use crate::health::{Health, HealthRequest, HealthSocket};
use crate::service_manager::ServiceManager;

/// The most answers that are looked for at a time. A request above it gets none.
const MAX_ANSWERS: usize = 16;

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
    /// The tasks that find the answers.
    answers: JoinSet<()>,
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
            answers: JoinSet::new(),
        }
    }

    /// Answers a request in a task, which asks the daemon's parts for its health, so that the daemon's loop goes on meanwhile.
    pub fn answer(
        &mut self,
        request: HealthRequest,
        health: impl Future<Output = Health> + Send + 'static,
    ) {
        while self.answers.try_join_next().is_some() {}
        if self.answers.len() < MAX_ANSWERS {
            self.answers
                .spawn(async move { request.answer(health.await).await });
        }
    }

    /// Tells the service manager that the daemon is alive, in a task, if `is_alive` finds that it is.
    pub fn tell_alive(&mut self, is_alive: impl Future<Output = bool> + Send + 'static) {
        let manager = self.manager;
        self.answers.spawn(async move {
            if is_alive.await {
                manager.alive();
            }
        });
    }

    /// Ends the tasks that still look for answers, and waits until they have ended.
    ///
    /// # Cancel safety
    /// The tasks end all the same when the future is dropped.
    pub async fn end(mut self) {
        self.answers.shutdown().await;
    }

    /// Returns the next question.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Question {
        let Self {
            watchdog,
            socket,
            answers,
            ..
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
        // What has ended is joined here and not only when the next question comes.
        let joined = async {
            while answers.join_next().await.is_some() {}
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            () = alive => Question::Alive,
            request = health => Question::Health(request),
            never = joined => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Asks over the socket, and returns what comes until the end.
    fn ask(folder: &Path) -> std::thread::JoinHandle<String> {
        let path = folder.join("health.ipc");
        std::thread::spawn(move || {
            let mut text = String::new();
            let mut stream = UnixStream::connect(path).unwrap();
            stream.read_to_string(&mut text).unwrap();
            text
        })
    }

    #[tokio::test]
    async fn an_answer_that_takes_long_keeps_the_loop_from_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut supervision = Supervision::start(folder.path());
        let slow = ask(folder.path());
        let Question::Health(request) = supervision.next().await else {
            panic!("a request");
        };
        supervision.answer(request, std::future::pending());
        let quick = ask(folder.path());
        let Question::Health(request) = supervision.next().await else {
            panic!("a request");
        };
        supervision.answer(request, std::future::ready(Health::default()));
        // The tasks run while the loop waits for the next question.
        let _third = ask(folder.path());
        let _ = supervision.next().await;
        assert!(quick.join().unwrap().contains("\"healthy\":true"));
        assert!(!slow.is_finished());
        supervision.end().await;
        assert_eq!(slow.join().unwrap(), "", "it is disconnected");
    }

    #[tokio::test]
    async fn so_many_answers_are_looked_for_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut supervision = Supervision::start(folder.path());
        for _ in 0..MAX_ANSWERS {
            let _waits = ask(folder.path());
            let Question::Health(request) = supervision.next().await else {
                panic!("a request");
            };
            supervision.answer(request, std::future::pending());
        }
        let above = ask(folder.path());
        let Question::Health(request) = supervision.next().await else {
            panic!("a request");
        };
        supervision.answer(request, std::future::pending());
        assert_eq!(above.join().unwrap(), "", "it gets no answer");
    }
}
