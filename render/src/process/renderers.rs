//! The processes that render, as a daemon uses them.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::num::NonZero;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_process_group};
use saline_data::{Packed, Value};
use saline_exec::{Description, Folder, Launcher, Limit, Process, Program, Resource, Streams};

use super::frame::{self, Answer, Order, RenderOrder};
use crate::lint::Finding;
use crate::{Files, Place, RenderError, Request, Step};

/// How long an order may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// The address space of a process, in bytes.
const ADDRESS_SPACE: u64 = 768 * 1024 * 1024;

/// After so many orders a process is replaced by a new one, so that none grows old.
const ORDERS: u32 = 20_000;

/// The program `saline-render`, or one that contains it.
#[derive(Debug, Clone)]
pub struct RenderProgram {
    /// The command line of a program that contains it; none for the file in the folder of the running program.
    contained: Option<Vec<CString>>,
}

impl RenderProgram {
    /// The name of the program.
    pub const NAME: &str = "saline-render";

    /// Returns the running program itself, which must call [`main`](super::main) when it is started with these
    /// arguments. `saline-exec` must be contained in it too.
    pub fn this_one(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| CString::new(*argument));
        Self {
            // None of ours has a null byte.
            contained: Some(arguments.filter_map(Result::ok).collect()),
        }
    }

    /// Returns `saline-render` where `saline-exec` is: beside the running program, or contained in it, which must call
    /// [`main`](super::main) when [`NAME`](Self::NAME) is its first argument.
    pub fn beside(exec: &Program) -> Self {
        match exec.is_contained() {
            true => Self::this_one(&[Self::NAME]),
            false => Self { contained: None },
        }
    }

    fn argv(&self) -> io::Result<Vec<CString>> {
        match &self.contained {
            None => {
                let path = std::env::current_exe()?.with_file_name(Self::NAME);
                Ok(vec![CString::new(path.into_os_string().into_vec())?])
            }
            // That of the process that executes it, which is saline-exec.
            Some(arguments) => {
                let program = [c"/proc/self/exe".to_owned()].into_iter();
                Ok(program.chain(arguments.iter().cloned()).collect())
            }
        }
    }
}

/// Renders files in processes of their own, as many at a time as there are processors.
#[derive(Debug)]
pub struct Renderers {
    launcher: Launcher,
    program: RenderProgram,
    /// How long one order may take, the reading of files included.
    pub(super) deadline: Duration,
    pub(super) pool: Mutex<Pool>,
    freed: Condvar,
    /// How many may be taken. Looked up when the first one is: most programs that have renderers need none.
    processors: OnceLock<usize>,
    started: AtomicU64,
    rendered: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Pool {
    pub(super) idle: Vec<Worker>,
    /// How many are taken.
    taken: usize,
}

/// One process.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) socket: UnixStream,
    pub(super) process: Process,
    orders: u32,
    /// The state of the files that its compiled templates are of.
    files_state: u64,
}

/// Counts the work of the renderers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenderCounts {
    /// The processes that were started.
    pub processes: u64,
    /// The files that were rendered.
    pub rendered: u64,
    /// The files that could not be rendered.
    pub failed: u64,
}

impl Renderers {
    /// Creates the renderers. No process is started before it is needed.
    pub fn new(launcher: Launcher, program: RenderProgram) -> Self {
        Self {
            launcher,
            program,
            deadline: DEADLINE,
            pool: Mutex::new(Pool {
                idle: Vec::new(),
                taken: 0,
            }),
            freed: Condvar::new(),
            processors: OnceLock::new(),
            started: AtomicU64::new(0),
            rendered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    fn processors(&self) -> usize {
        let look = || std::thread::available_parallelism().map_or(2, NonZero::get);
        *self.processors.get_or_init(look)
    }

    /// Returns what the renderers did so far.
    pub fn counts(&self) -> RenderCounts {
        RenderCounts {
            processes: self.started.load(Ordering::Relaxed),
            rendered: self.rendered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    /// Renders a file, and waits for the result: not for a task of a runtime. `files_state` is a number that differs
    /// whenever the files may differ.
    ///
    /// # Errors
    /// When the file cannot be rendered, and when it takes too long or too much memory.
    pub fn render(
        &self,
        files: &dyn Files,
        files_state: u64,
        request: &Request,
    ) -> Result<Value, RenderError> {
        let done = self.order(&request.name, |worker| {
            let order = Order::Render(worker.begin(files_state, request));
            worker.ask(&order, files, self.deadline)
        });
        let done = done.and_then(|answer| match answer {
            Answer::Rendered(Ok(packed)) => packed
                .unpack()
                .map_err(|error| RenderError::new(format!("{}: {error}", request.name))),
            Answer::Rendered(Err(error)) => Err(error),
            _ => Err(RenderError::new("saline-render answered something else")),
        });
        let counter = if done.is_ok() {
            &self.rendered
        } else {
            &self.failed
        };
        counter.fetch_add(1, Ordering::Relaxed);
        done
    }

    /// Returns the place from which a part of a rendered file comes ([`Renderer::place_of`](crate::Renderer::place_of)), for an error
    /// about it: the file is rendered again. None where no process can tell.
    pub fn place_of(
        &self,
        files: &dyn Files,
        files_state: u64,
        request: &Request,
        part: &[Step],
    ) -> Option<Place> {
        let answer = self.order(&request.name, |worker| {
            let order = Order::Place(worker.begin(files_state, request), part.to_vec());
            worker.ask(&order, files, self.deadline)
        });
        match answer {
            Ok(Answer::Placed(place)) => place,
            _ => None,
        }
    }

    /// Returns what of a file will not render, as far as can be told without rendering it.
    ///
    /// # Errors
    /// When no process can tell.
    pub fn lint(&self, path: &str, text: &str) -> Result<Vec<Finding>, RenderError> {
        let order = Order::Lint {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        match self.order(path, |worker| worker.ask(&order, &NoFiles, self.deadline))? {
            Answer::Linted(findings) => Ok(findings),
            _ => Err(RenderError::new("saline-render answered something else")),
        }
    }

    fn order(
        &self,
        name: &str,
        ask: impl FnOnce(&mut Worker) -> io::Result<Answer>,
    ) -> Result<Answer, RenderError> {
        let mut processor = self.processor();
        if processor.worker.is_none() {
            let started = self.start().map_err(|error| {
                RenderError::new(format!(
                    "cannot start saline-render, which renders {name}: {error}"
                ))
            })?;
            processor.worker = Some(started);
        }
        // Taken out: one whose order is given up half-way, also by a panic, gets no other one.
        let Some(mut worker) = processor.worker.take() else {
            return Err(RenderError::new("no process renders"));
        };
        match ask(&mut worker) {
            Ok(answer) => {
                worker.orders += 1;
                processor.worker = Some(worker);
                Ok(answer)
            }
            Err(error) => {
                // Nobody knows what it is about.
                drop(worker);
                let why = match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        format!("it takes longer than {} s", self.deadline.as_secs())
                    }
                    io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionReset => {
                        "its process ended, since it took too much memory or nests too deep"
                            .to_owned()
                    }
                    _ => error.to_string(),
                };
                Err(RenderError::new(format!("{name} is not rendered: {why}")))
            }
        }
    }

    /// Waits for a place at the processors.
    fn processor(&self) -> Processor<'_> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        while pool.taken >= self.processors() {
            pool = self
                .freed
                .wait(pool)
                .unwrap_or_else(PoisonError::into_inner);
        }
        pool.taken += 1;
        // One that ended while it waited, killed for memory or by somebody, costs no order.
        while pool.idle.pop_if(|worker| worker.has_ended()).is_some() {}
        Processor {
            renderers: self,
            worker: pool.idle.pop(),
        }
    }

    fn start(&self) -> io::Result<Worker> {
        let (socket, other) = UnixStream::pair()?;
        let nowhere = || OpenOptions::new().write(true).open("/dev/null");
        let streams = Streams {
            input: other.into(),
            output: nowhere()?.into(),
            error: nowhere()?.into(),
        };
        let limit = |resource, limit| Limit {
            resource,
            soft: Some(limit),
            hard: Some(limit),
        };
        let description = Description {
            argv: self.program.argv()?,
            environment: Vec::new(),
            folder: Folder::Given(c"/".to_owned()),
            umask: Some(0o077),
            limits: vec![
                limit(Resource::AddressSpace, ADDRESS_SPACE),
                limit(Resource::CoreFile, 0),
                limit(Resource::FileSize, 0),
                limit(Resource::OpenFiles, 16),
            ],
            ..Description::default()
        };
        let started = self.launcher.start(&description, streams);
        let process = started.map_err(io::Error::other)?;
        let worker = Worker {
            socket,
            process,
            orders: 0,
            files_state: 0,
        };
        self.started.fetch_add(1, Ordering::Relaxed);
        match worker.hear(now() + DEADLINE)? {
            Answer::Ready(Ok(())) => Ok(worker),
            Answer::Ready(Err(why)) => Err(io::Error::other(why)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// A place at the processors, which is freed when this is dropped.
struct Processor<'a> {
    renderers: &'a Renderers,
    worker: Option<Worker>,
}

impl Drop for Processor<'_> {
    fn drop(&mut self) {
        let worker = self.worker.take().filter(|worker| worker.orders < ORDERS);
        let pool = self.renderers.pool.lock();
        let mut pool = pool.unwrap_or_else(PoisonError::into_inner);
        pool.idle.extend(worker);
        pool.taken -= 1;
        self.renderers.freed.notify_one();
    }
}

impl Worker {
    /// Reports whether the process closed its end of the socket, which it does only when it ends.
    fn has_ended(&self) -> bool {
        let mut socket = [PollFd::new(&self.socket, PollFlags::IN)];
        // Whatever there is to read is of no order: between two orders it says nothing.
        poll(&mut socket, Some(&Timespec::default())) != Ok(0)
    }

    /// Returns the order about a file, when the files are in this state.
    fn begin(&mut self, files_state: u64, request: &Request) -> RenderOrder {
        let forget = self.files_state != files_state;
        self.files_state = files_state;
        RenderOrder {
            forget,
            name: request.name.clone(),
            document: request.document,
            variables: Packed::pack(&request.variables),
        }
    }

    /// Gives an order, and reads the files that are asked for until there is an answer.
    fn ask(&mut self, order: &Order, files: &dyn Files, within: Duration) -> io::Result<Answer> {
        let deadline = now() + within;
        self.tell(order, deadline)?;
        loop {
            match self.hear(deadline)? {
                Answer::Read(name) => self.tell(&Order::File(files.read(&name)), deadline)?,
                answer => return Ok(answer),
            }
        }
    }

    fn tell(&self, order: &Order, deadline: Instant) -> io::Result<()> {
        self.socket.set_write_timeout(Some(left(deadline)?))?;
        frame::write(&self.socket, order)
    }

    fn hear(&self, deadline: Instant) -> io::Result<Answer> {
        self.socket.set_read_timeout(Some(left(deadline)?))?;
        frame::read(&self.socket)
    }
}

/// Returns the present time. A thread waits here for a process, outside of any runtime.
#[allow(
    clippy::disallowed_methods,
    reason = "the deadline is a socket's, which the system's own clock measures"
)]
fn now() -> Instant {
    Instant::now()
}

/// Returns the time until a deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may be in an endless loop, and dropping the process waits for its end. Its pid is reserved until then.
        let _ = kill_process_group(self.process.pid(), Signal::KILL);
    }
}

/// There are no files.
struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _name: &str) -> Result<Option<crate::File>, String> {
        Ok(None)
    }
}
