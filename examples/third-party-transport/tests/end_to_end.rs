//! The three binaries of this crate, as processes: a master and a minion over WebSocket, and a ping.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "deadlines for processes that are really running; nothing here sleeps"
)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A daemon that this test started. Dropping it kills it.
struct Daemon {
    child: Child,
    log: Receiver<String>,
}

impl Daemon {
    fn start(program: &str, config: &Path) -> Self {
        let mut child = Command::new(program)
            .arg("-c")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (lines, log) = sync_channel(10_000);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = lines.try_send(line);
            }
        });
        Self { child, log }
    }

    /// The next line that contains `needle`.
    fn wait_for(&self, needle: &str) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(line) if line.contains(needle) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!(
                    "waited in vain for {needle:?}; the log:\n{}",
                    seen.join("\n")
                ),
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_minion_answers_over_websocket() {
    let root = tempfile::Builder::new()
        .prefix("saline-")
        .tempdir()
        .unwrap();
    let at = |below: &str| root.path().join(below);
    std::fs::create_dir(at("etc")).unwrap();
    let config = format!(
        "root_dir: {}\ntransport: ws\nipc_transport: tcp\ninterface: 127.0.0.1\nret_port: 0\n\
         auto_accept: True\nlog_level: info\n",
        at("master").display()
    );
    std::fs::write(at("etc/master"), config).unwrap();
    let master = Daemon::start(env!("CARGO_BIN_EXE_saline-master"), &at("etc"));
    let bound = master.wait_for("ws://");
    let port = bound.split("ws://127.0.0.1:").nth(1).unwrap();
    let port: String = port.chars().take_while(char::is_ascii_digit).collect();

    let config = format!(
        "root_dir: {}\ntransport: ws\nid: web1\nmaster: 127.0.0.1\nmaster_port: {port}\n\
         acceptance_wait_time: 0.2\nlog_level: info\n",
        at("minion").display()
    );
    std::fs::write(at("etc/minion"), config).unwrap();
    let minion = Daemon::start(env!("CARGO_BIN_EXE_saline-minion"), &at("etc"));
    minion.wait_for("subscribed");

    let said = Command::new(env!("CARGO_BIN_EXE_saline"))
        .arg("-c")
        .arg(at("etc"))
        .args(["*", "test.ping"])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        text(&said.stdout),
        "web1:\n    True\n",
        "{}",
        text(&said.stderr)
    );
}
