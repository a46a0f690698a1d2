//! The health of a running daemon: what `--health` prints, and the socket over which the daemon reports it.
//!
//! The daemon's own loop answers, so an answer shows that the loop is alive. The socket (`health.ipc` in `sock_dir`, 0600)
//! takes no orders: the daemon writes one JSON object to each connection, and closes it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use saline_protocol::transport::Clock;
use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use crate::unix_socket::UnixSocket;

/// How long the daemon may take to report its health.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may take to read the answer, which fits into the buffer of the socket.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The largest answer in bytes.
const MAX_ANSWER: u64 = 256 * 1024;

/// The exit code when no daemon answers.
const NOT_RUNNING: u8 = 2;

/// The health of a daemon: facts about it, and problems that an operator has to look at.
#[derive(Debug, Default)]
pub struct Health {
    facts: Map<String, Value>,
    problems: Vec<String>,
}

impl Health {
    /// Returns the health of a daemon without problems, with the facts that every daemon reports.
    pub fn of_this_process() -> Self {
        let mut health = Self::default();
        health.fact("version", env!("CARGO_PKG_VERSION"));
        health.fact("pid", std::process::id());
        health
    }

    /// Adds a fact. Its name has its unit, such as `store_bytes`.
    pub fn fact(&mut self, name: &str, value: impl Into<Value>) {
        self.facts.insert(name.to_owned(), value.into());
    }

    /// Adds a problem: one line that says what an operator has to look at.
    pub fn problem(&mut self, line: impl Into<String>) {
        self.problems.push(line.into());
    }

    /// Returns the problems.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the answer to a [`HealthRequest`].
    fn into_json(self) -> Value {
        let mut all = Map::new();
        all.insert("healthy".to_owned(), self.problems.is_empty().into());
        all.insert("problems".to_owned(), self.problems.into());
        all.extend(self.facts);
        Value::Object(all)
    }
}

/// The socket at which a daemon is asked for its health. The file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct HealthSocket(UnixSocket);

/// A connection over which a client asks for the health of this daemon.
#[derive(Debug)]
pub struct HealthRequest(UnixStream);

impl HealthSocket {
    /// Listens in `sock_dir`, whose lock this process holds. A file that an earlier daemon left is replaced. Needs a running
    /// runtime.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub(crate) fn bind(sock_dir: &Path) -> io::Result<Self> {
        UnixSocket::bind(&path(sock_dir), 0o600).map(Self)
    }

    /// Returns the next request.
    ///
    /// # Cancel safety
    /// No request is lost when the future is dropped.
    pub(crate) async fn next(&self) -> io::Result<HealthRequest> {
        self.0.accept().await.map(HealthRequest)
    }
}

impl HealthRequest {
    /// Answers the request. A client that does not read the answer is disconnected after a second.
    pub async fn answer(mut self, health: Health) {
        let text = health.into_json().to_string();
        let end = Clock.after(WRITE_TIMEOUT);
        let written = Clock.deadline(end, self.0.write_all(text.as_bytes())).await;
        if !matches!(written, Ok(Ok(()))) {
            tracing::debug!(
                "the client that asked for the health of this daemon did not read the answer"
            );
        }
    }
}

fn path(sock_dir: &Path) -> PathBuf {
    sock_dir.join("health.ipc")
}

/// Whether a daemon whose sockets are in `sock_dir` runs.
pub(crate) fn is_served(sock_dir: &Path) -> bool {
    BlockingStream::connect(path(sock_dir)).is_ok()
}

/// Asks the daemon whose sockets are in `sock_dir` for its health: the whole of `--health`. Prints the answer as JSON, and each
/// problem as a line on the standard error output.
///
/// Returns the exit code: 0 when the daemon is well, 1 when it names a problem, 2 when it does not answer.
pub fn print_health(program: &str, sock_dir: &Path) -> ExitCode {
    let path = path(sock_dir);
    let answer = match ask(&path, ANSWER_TIMEOUT) {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("{program}: {}", explain(&path, &error));
            return ExitCode::from(NOT_RUNNING);
        }
    };
    let problems = answer["problems"].as_array().into_iter().flatten();
    for problem in problems.filter_map(Value::as_str) {
        eprintln!("{program}: {problem}");
    }
    // A monitor that wants the exit code alone may have closed the output.
    let _ = writeln!(io::stdout(), "{answer:#}");
    match answer["healthy"] == Value::Bool(true) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Returns the line about a daemon that gave no answer.
fn explain(path: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            return format!(
                "the daemon at {} does not answer within {} s: the daemon has hung, look at its log and restart it",
                path.display(),
                ANSWER_TIMEOUT.as_secs()
            );
        }
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "; the daemon does not run, or has another sock_dir"
        }
        io::ErrorKind::PermissionDenied => "; ask as root, or as the daemon's user",
        _ => "",
    };
    format!("no daemon answers at {}: {error}{hint}", path.display())
}

/// Connects to the socket. A daemon that has hung accepts nothing, and once its queue of connections is full, connecting blocks
/// too: `WouldBlock` after `within`.
fn connect_within(path: &Path, within: Duration) -> io::Result<BlockingStream> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // The time-out of sending bounds connecting as well.
    set_socket_timeout(&socket, Timeout::Send, Some(within))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(BlockingStream::from(socket))
}

fn ask(path: &Path, within: Duration) -> io::Result<Value> {
    let stream = connect_within(path, within)?;
    stream.set_read_timeout(Some(within))?;
    let mut text = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut text)?;
    if text.is_empty() {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    serde_json::from_str(&text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn the_answer_tells_problems_and_facts() {
        let folder = tempfile::tempdir().unwrap();
        let socket = HealthSocket::bind(folder.path()).unwrap();
        let file = path(folder.path());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let asking = std::thread::spawn({
            let file = file.clone();
            move || ask(&file, ANSWER_TIMEOUT).unwrap()
        });
        let request = socket.next().await.unwrap();
        let mut health = Health::of_this_process();
        health.fact("jobs_running", 2);
        health.problem("the disk is full");
        request.answer(health).await;
        let answer = asking.join().unwrap();
        assert_eq!(answer["healthy"], false);
        assert_eq!(answer["problems"][0], "the disk is full");
        assert_eq!(answer["jobs_running"], 2);
        assert_eq!(answer["pid"], std::process::id());
        drop(socket);
        assert!(!file.exists());
    }

    #[tokio::test]
    async fn a_socket_that_an_earlier_daemon_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = path(folder.path());
        drop(std::os::unix::net::UnixListener::bind(&file).unwrap());
        assert!(ask(&file, ANSWER_TIMEOUT).is_err() && file.exists());
        let socket = HealthSocket::bind(folder.path()).unwrap();
        let asking = std::thread::spawn(move || ask(&file, ANSWER_TIMEOUT).unwrap());
        let request = socket.next().await.unwrap();
        request.answer(Health::default()).await;
        assert_eq!(asking.join().unwrap()["healthy"], true);
    }

    #[test]
    fn a_daemon_that_accepts_nothing_does_not_make_who_asks_wait_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let file = path(folder.path());
        let listener = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let listener = listener.unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&file).unwrap()).unwrap();
        // Room for one connection.
        rustix::net::listen(&listener, 0).unwrap();
        let short = Duration::from_millis(50);
        let _first = connect_within(&file, short).unwrap();
        let error = ask(&file, short).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let line = explain(&file, &error);
        assert!(line.contains("does not answer within 10 s"), "{line}");
    }
}
