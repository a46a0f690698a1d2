//! A slow link in front of a master that listens on TCP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use super::TEST_TIMEOUT;

/// The bytes that pass at once.
const STEP: usize = 16 * 1024;

/// A proxy that lets so many bytes a second pass to the master, and everything back.
pub struct SlowLink {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    passed: Mutex<Passed>,
    grown: Condvar,
}

#[derive(Default)]
struct Passed {
    bytes: usize,
    open: Vec<TcpStream>,
}

impl SlowLink {
    pub fn to(master: u16, bytes_a_second: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            // Ends with the test's process.
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(("127.0.0.1", master)) else {
                    continue;
                };
                let streams = [&near, &far].map(|stream| stream.try_clone().unwrap());
                shared.passed.lock().unwrap().open.extend(streams);
                let up = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let state = Arc::clone(&shared);
                std::thread::spawn(move || state.pass_slowly(up.0, up.1, bytes_a_second));
                std::thread::spawn(move || pass(far, near));
            }
        });
        Self { port, state }
    }

    /// Returns the bytes that went to the master so far.
    pub fn passed(&self) -> usize {
        self.state.passed.lock().unwrap().bytes
    }

    /// Waits until so many bytes went to the master.
    pub fn wait_for(&self, bytes: usize) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut passed = self.state.passed.lock().unwrap();
        while passed.bytes < bytes {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} bytes passed", passed.bytes);
            passed = self.state.grown.wait_timeout(passed, left).unwrap().0;
        }
    }

    /// Cuts every connection; new ones are taken.
    pub fn cut(&self) {
        for stream in self.state.passed.lock().unwrap().open.drain(..) {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    #[allow(
        clippy::disallowed_methods,
        reason = "the pause is what makes the link slow; nothing waits for a condition with it"
    )]
    fn pass_slowly(&self, mut from: TcpStream, mut to: TcpStream, bytes_a_second: usize) {
        let mut buffer = [0; STEP];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            std::thread::sleep(Duration::from_secs(1) * count as u32 / bytes_a_second as u32);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            self.passed.lock().unwrap().bytes += count;
            self.grown.notify_all();
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; STEP];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
