//! A headless Chromium with one page, for tests of what a browser shows: driven by the DevTools protocol over two pipes, so that
//! no port is opened and no crate is needed for the few commands that tests use.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use crate::TEST_TIMEOUT;

/// The names of the program, as distributions have it.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// How many messages of the browser wait to be read.
const WAITING: usize = 1_024;

/// A browser with one page. It is ended when this is dropped.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    reader: Option<JoinHandle<()>>,
    /// The session of the page.
    session: String,
    /// The number of the last command.
    number: u64,
    /// The messages of the page's console, and the errors that its scripts did not catch.
    console: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts the browser with an empty profile. Returns none, and says so, where Chromium is not installed.
    pub fn start() -> Option<Self> {
        let Some(program) = PROGRAMS.into_iter().find(|name| is_on_path(name)) else {
            eprintln!(
                "SKIPPED: Chromium is not installed (Debian: apt-get install chromium), so nothing is tried in a browser"
            );
            return None;
        };
        let profile = tempfile::tempdir().expect("a temporary folder");
        // The browser reads commands from descriptor 3 and writes to descriptor 4.
        let mut child = Command::new("sh")
            .args([
                "-c",
                "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null",
                "sh",
                program,
            ])
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args([
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--remote-debugging-pipe",
            ])
            // Nothing is asked of other hosts.
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--no-proxy-server",
            ])
            .args(["--window-size=1280,900", "--ignore-certificate-errors"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a browser");
        let commands = child.stdin.take().expect("the pipe for commands");
        let output = child.stdout.take().expect("the pipe of the browser");
        let (sender, messages) = sync_channel(WAITING);
        let reader =
            std::thread::spawn(move || read(output, |message| sender.send(message).is_ok()));
        let mut browser = Self {
            child,
            commands,
            messages,
            reader: Some(reader),
            session: String::new(),
            number: 0,
            console: Vec::new(),
            _profile: profile,
        };
        let target = browser.command("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.command(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        browser.session = text(&attached["sessionId"]);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.command(domain, json!({}));
        }
        Some(browser)
    }

    /// Opens an address in the page.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub fn open(&mut self, url: &str) {
        let opened = self.command("Page.navigate", json!({ "url": url }));
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
        self.wait_for("document.readyState === 'complete'");
    }

    /// Evaluates an expression in the page and returns its value; a promise is waited for.
    ///
    /// # Panics
    /// When the expression throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let evaluated = self.command(
            "Runtime.evaluate",
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true }),
        );
        assert!(
            evaluated.get("exceptionDetails").is_none(),
            "{expression}: {evaluated}"
        );
        evaluated["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page, which looks each time that it is drawn, and across its own navigations.
    ///
    /// # Panics
    /// When that takes too long: the message has the text of the page and its console.
    pub fn wait_for(&mut self, condition: &str) {
        self.wait_within(TEST_TIMEOUT, condition);
    }

    /// Waits as [`wait_for`](Self::wait_for) does, for so long.
    ///
    /// # Panics
    /// When that takes longer.
    pub fn wait_within(&mut self, time: Duration, condition: &str) {
        let milliseconds = time.as_millis();
        let expression = format!(
            "new Promise(resolve => {{ const end = Date.now() + {milliseconds}; const look = () => {{ let is = false; \
             try {{ is = !!({condition}); }} catch {{ }} \
             if (is || Date.now() > end) resolve(is); else setTimeout(look, 20); }}; look(); }})"
        );
        loop {
            let evaluated = self.command(
                "Runtime.evaluate",
                json!({ "expression": expression, "awaitPromise": true, "returnByValue": true }),
            );
            match &evaluated["result"]["value"] {
                Value::Bool(true) => return,
                Value::Bool(false) => break,
                // The page went to another address meanwhile.
                _ => {}
            }
        }
        let shown = self.evaluate("document.body && document.body.innerText");
        panic!(
            "{condition} has not become true; the page shows:\n{}\nits console has:\n{}",
            text(&shown),
            self.console.join("\n")
        );
    }

    /// Has the page emulate a medium's feature, such as `prefers-color-scheme` with `dark`.
    pub fn emulate(&mut self, feature: &str, value: &str) {
        self.command(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": feature, "value": value }] }),
        );
    }

    /// Gives the page a window of this size.
    pub fn resize(&mut self, width: u32, height: u32) {
        self.command(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
    }

    /// Returns the role and the name of each thing in the page that a screen reader tells of.
    pub fn accessible(&mut self) -> Vec<(String, String)> {
        let tree = self.command("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().into_iter().flatten();
        let told = nodes.filter(|node| node["ignored"] != json!(true));
        let part = |node: &Value, part: &str| text(&node[part]["value"]);
        told.map(|node| (part(node, "role"), part(node, "name")))
            .collect()
    }

    /// Presses a key, by its name in the DOM: `Tab`, `Enter`.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            if key == "Enter" && kind == "keyDown" {
                event["text"] = json!("\r");
            }
            self.command("Input.dispatchKeyEvent", event);
        }
    }

    /// Returns a picture of the page, as PNG in base64.
    pub fn screenshot(&mut self) -> String {
        let taken = self.command("Page.captureScreenshot", json!({ "format": "png" }));
        text(&taken["data"])
    }

    /// Returns what the page's console has said, and the errors that its scripts did not catch.
    pub fn console(&self) -> &[String] {
        &self.console
    }

    /// Sends a command and returns its result.
    fn command(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut command = json!({ "id": self.number, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = json!(self.session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser reads");
        loop {
            let message = self
                .messages
                .recv_timeout(2 * TEST_TIMEOUT)
                .unwrap_or_else(|_| panic!("the browser does not answer {method}"));
            if message["id"] == json!(self.number) {
                // A page that goes elsewhere ends what it evaluates.
                return message.get("result").cloned().unwrap_or_default();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.consoleAPICalled") => {
                let said = params["args"].as_array().into_iter().flatten();
                let said: Vec<String> = said.map(|value| text(&value["value"])).collect();
                self.console.push(said.join(" "));
            }
            Some("Runtime.exceptionThrown") => {
                self.console.push(params["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") => self.console.push(text(&params["entry"]["text"])),
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            // The pipe has ended with the browser, or nobody takes the next message.
            let (_, none) = sync_channel(0);
            self.messages = none;
            let _ = reader.join();
        }
    }
}

/// Reads messages, which end with a zero byte, until the pipe ends or nobody takes them.
fn read(output: ChildStdout, take: impl Fn(Value) -> bool) {
    let mut output = BufReader::new(output);
    let mut bytes = Vec::new();
    while matches!(output.read_until(0, &mut bytes), Ok(1..)) {
        bytes.pop();
        if let Ok(message) = serde_json::from_slice(&bytes)
            && !take(message)
        {
            return;
        }
        bytes.clear();
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
