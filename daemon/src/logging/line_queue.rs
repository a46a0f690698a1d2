//! The queue of the lines of the log, which a thread of its own writes: a disk or a reader that is slow holds up
//! nobody who logs.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The bytes of lines that may wait. Further lines are dropped and counted.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// How long the lines that wait may take to be written when the log ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The destination of the lines.
pub(super) type Sink = Box<dyn Write + Send>;

/// Makes the line about dropped lines: of their number and of the reason.
pub(super) type DropNotice = Box<dyn Fn(u64, &str) -> String + Send>;

/// A queue of lines. Whoever adds one does not wait for the disk, as long as the thread runs.
#[derive(Default)]
pub(super) struct LineQueue {
    state: Mutex<QueuedLines>,
    /// Notified when there is something for the thread to do.
    filled: Condvar,
    /// Notified when everything has been written.
    emptied: Condvar,
}

#[derive(Default)]
struct QueuedLines {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The lines that were dropped since that was written.
    dropped: u64,
    /// The sink that is to be used from now on.
    next: Option<Sink>,
    /// None while the thread uses it.
    sink: Option<Sink>,
    /// Whether the thread writes lines that are not in the queue any more.
    is_writing: bool,
    /// Whether the thread is to end, or has ended: then each line is written at once.
    has_ended: bool,
}

impl LineQueue {
    /// Starts a thread that writes to `sink`.
    pub(super) fn start(sink: Sink, notice: DropNotice) -> io::Result<(Arc<Self>, JoinHandle<()>)> {
        let queue = Arc::new(Self::default());
        queue.lock().sink = Some(sink);
        let working = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || working.write_lines(&notice))?;
        Ok((queue, thread))
    }

    /// Adds a line, or drops it and counts that when too much waits already.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.has_ended {
            return state.write_now(line);
        }
        if state.bytes + line.len() > MAX_BYTES {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.to_vec());
        drop(state);
        self.filled.notify_one();
    }

    /// Writes what is added from now on to another sink. What waits is written to the old one.
    pub(super) fn replace(&self, sink: Sink) {
        self.wait_until_written();
        let mut state = self.lock();
        match state.has_ended {
            true => state.sink = Some(sink),
            false => state.next = Some(sink),
        }
    }

    /// Ends the thread when it has written what waits, or does not get on with it. What is added afterwards is
    /// written at once.
    /// Returns whether everything was written.
    pub(super) fn end(&self) -> bool {
        let is_written = self.wait_until_written();
        self.lock().has_ended = true;
        self.filled.notify_one();
        is_written
    }

    /// Waits until everything is written, at most for a while. Returns whether it is.
    fn wait_until_written(&self) -> bool {
        let is_behind = |state: &mut QueuedLines| state.is_writing || !state.lines.is_empty();
        let waited = self
            .emptied
            .wait_timeout_while(self.lock(), END_TIMEOUT, is_behind);
        waited.is_ok_and(|(_, timeout)| !timeout.timed_out())
    }

    /// Writes lines until the queue is closed; the body of the thread.
    fn write_lines(&self, notice: &DropNotice) {
        let mut failed = None;
        let Some(mut sink) = self.lock().sink.take() else {
            return;
        };
        loop {
            let mut state = self.lock();
            while state.lines.is_empty() && !state.has_ended && state.next.is_none() {
                state = match self.filled.wait(state) {
                    Ok(state) => state,
                    Err(poisoned) => poisoned.into_inner(),
                };
            }
            if let Some(next) = state.next.take() {
                (sink, failed) = (next, None);
            }
            if state.lines.is_empty() && state.has_ended {
                state.sink = Some(sink);
                return;
            }
            let mut lines = std::mem::take(&mut state.lines);
            let dropped = std::mem::take(&mut state.dropped);
            (state.bytes, state.is_writing) = (0, true);
            drop(state);
            if dropped > 0 {
                let why = failed.as_deref();
                let why = why.unwrap_or("they came faster than they could be written");
                lines.push_front(notice(dropped, why).into_bytes());
            }
            let lost = match write(&mut sink, &lines) {
                Ok(()) => {
                    failed = None;
                    0
                }
                Err(error) => {
                    failed = Some(error.to_string());
                    // The line about those before is none of them.
                    dropped + lines.len() as u64 - u64::from(dropped > 0)
                }
            };
            let mut state = self.lock();
            state.dropped += lost;
            state.is_writing = false;
            drop(state);
            self.emptied.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedLines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(sink: &mut Sink, lines: &VecDeque<Vec<u8>>) -> io::Result<()> {
    let bytes: Vec<u8> = lines.iter().flatten().copied().collect();
    sink.write_all(&bytes)?;
    sink.flush()
}

impl QueuedLines {
    fn write_now(&mut self, line: &[u8]) {
        if let Some(sink) = &mut self.sink {
            // There is nobody left to be told.
            let _ = sink.write_all(line).and_then(|()| sink.flush());
        }
    }
}

impl fmt::Debug for LineQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        write!(f, "LineQueue({} lines wait)", state.lines.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// A sink that waits for permission before each write.
    struct Gated {
        permits: Receiver<()>,
        began: SyncSender<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.began.send(());
            // An error means that the test waits no more.
            let _ = self.permits.recv();
            self.written.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn notice() -> DropNotice {
        Box::new(|dropped, why| format!("dropped {dropped}: {why}\n"))
    }

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Memory {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_is_written_at_a_clean_end_and_what_comes_after_it_too() {
        let memory = Memory::default();
        let (queue, thread) = LineQueue::start(Box::new(memory.clone()), notice()).unwrap();
        let mut expected = String::new();
        for number in 0..5_000 {
            let line = format!("line {number}\n");
            queue.push(line.as_bytes());
            expected.push_str(&line);
        }
        assert!(queue.end());
        thread.join().unwrap();
        assert_eq!(memory.text(), expected);
        queue.push(b"late\n");
        assert_eq!(memory.text(), expected + "late\n");
    }

    #[test]
    fn a_sink_that_hangs_holds_up_nobody_and_the_drops_are_counted() {
        let (permit, permits) = sync_channel(16);
        let (began, writes) = sync_channel(16);
        let written = Arc::new(Mutex::new(Vec::new()));
        let gated = Gated {
            permits,
            began,
            written: Arc::clone(&written),
        };
        let (queue, thread) = LineQueue::start(Box::new(gated), notice()).unwrap();
        queue.push(b"first\n");
        writes.recv().unwrap();
        // The thread hangs in its write from here on.
        let line = vec![b'x'; 64 * 1024];
        let fits = MAX_BYTES / line.len();
        for _ in 0..fits + 7 {
            queue.push(&line);
        }
        drop(permit);
        assert!(queue.end());
        thread.join().unwrap();
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let (head, rest) = text.split_at("first\n".len());
        assert_eq!(head, "first\n");
        let said = "dropped 7: they came faster than they could be written\n";
        assert!(rest.starts_with(said), "{}", &rest[..200]);
        assert_eq!(rest.len(), said.len() + fits * line.len());
    }

    #[test]
    fn a_sink_is_replaced_between_two_lines() {
        let (old, new) = (Memory::default(), Memory::default());
        let (queue, thread) = LineQueue::start(Box::new(old.clone()), notice()).unwrap();
        queue.push(b"1\n");
        queue.replace(Box::new(new.clone()));
        queue.push(b"2\n");
        assert!(queue.end());
        thread.join().unwrap();
        assert_eq!(
            (old.text(), new.text()),
            ("1\n".to_owned(), "2\n".to_owned())
        );
    }

    #[test]
    fn lines_that_a_full_disk_did_not_take_are_counted() {
        struct Full(Memory, u32);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.1 += 1;
                match self.1 {
                    1 => Err(io::ErrorKind::StorageFull.into()),
                    _ => self.0.write(bytes),
                }
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let memory = Memory::default();
        let (queue, thread) =
            LineQueue::start(Box::new(Full(memory.clone(), 0)), notice()).unwrap();
        queue.push(b"1\n");
        queue.wait_until_written();
        queue.push(b"2\n");
        assert!(queue.end());
        thread.join().unwrap();
        assert_eq!(memory.text(), "dropped 1: no storage space\n2\n");
    }
}
