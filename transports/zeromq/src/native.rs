//! Calls of libzmq and of the system that the `zmq` crate does not offer.
#![allow(
    unsafe_code,
    reason = "ZMQ_MAX_SOCKETS, XPUB_VERBOSER, XPUB_NODROP, USE_FD and TCP_MAXRT have no setter in the zmq \
              crate, its bind and connect panic on an errno that it does not list, and its Message \
              is not Send"
)]

use std::ffi::{CString, c_int, c_void};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use bytes::Bytes;
use saline_protocol::transport::{Peer, Source, SourceNetwork};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

// A `zmq::Message` is passed to libzmq as the `zmq_msg_t` that it holds. It is not `repr(transparent)`; with one
// size and one alignment there is no room for anything beside that field.
const _: () = assert!(size_of::<zmq::Message>() == size_of::<zmq_sys::zmq_msg_t>());
const _: () = assert!(align_of::<zmq::Message>() == align_of::<zmq_sys::zmq_msg_t>());

/// ZMQ_SRCFD, which zmq-sys leaves out of its exports.
const SRCFD: c_int = 2;

/// A libzmq context. The last one to drop it waits until all its sockets are closed, which is quick:
/// none of them lingers unless it is being shut down gracefully.
#[derive(Debug)]
pub(crate) struct NativeContext(*mut c_void);

// SAFETY: libzmq documents contexts as safe to share between threads.
unsafe impl Send for NativeContext {}
// SAFETY: as above.
unsafe impl Sync for NativeContext {}

impl NativeContext {
    /// Returns a context that allows `max_sockets` sockets.
    pub(crate) fn new(max_sockets: u16) -> io::Result<Self> {
        // SAFETY: takes nothing; null is checked below.
        let context = unsafe { zmq_sys::zmq_ctx_new() };
        if context.is_null() {
            return Err(last_error());
        }
        let context = Self(context);
        context.set(zmq_sys::ZMQ_MAX_SOCKETS, c_int::from(max_sockets))?;
        // A socket that is dropped without a shutdown takes what it has not sent with it.
        context.set(zmq_sys::ZMQ_BLOCKY, 0)?;
        Ok(context)
    }

    fn set(&self, option: u32, value: c_int) -> io::Result<()> {
        // SAFETY: the context is alive until `drop`.
        check(unsafe { zmq_sys::zmq_ctx_set(self.0, option as c_int, value) })
    }

    /// Opens a socket of this context. It must not outlive the context: [`Socket`](crate::socket::Socket)
    /// owns both.
    pub(crate) fn socket(&self, kind: zmq::SocketType) -> io::Result<zmq::Socket> {
        let kind = match kind {
            zmq::DEALER => zmq_sys::ZMQ_DEALER,
            zmq::ROUTER => zmq_sys::ZMQ_ROUTER,
            zmq::SUB => zmq_sys::ZMQ_SUB,
            zmq::XPUB => zmq_sys::ZMQ_XPUB,
            _ => zmq_sys::ZMQ_PAIR,
        };
        // SAFETY: the context is alive; null is checked below.
        let socket = unsafe { zmq_sys::zmq_socket(self.0, kind as c_int) };
        if socket.is_null() {
            return Err(last_error());
        }
        // SAFETY: the pointer is a fresh socket that nothing else owns.
        Ok(unsafe { zmq::Socket::from_raw(socket) })
    }
}

impl Drop for NativeContext {
    fn drop(&mut self) {
        // SAFETY: this is the only place that ends it, and every socket holds the context alive.
        while unsafe { zmq_sys::zmq_ctx_term(self.0) } == -1 {
            if last_error().kind() != io::ErrorKind::Interrupted {
                break;
            }
        }
    }
}

/// The descriptor of a socket (ZMQ_FD), which the socket closes.
#[derive(Debug)]
pub(crate) struct Descriptor(RawFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// Registers the descriptor of `socket` with the runtime. The result must be dropped before the
/// socket: [`Socket`](crate::socket::Socket) owns both, in that order.
pub(crate) fn register(socket: &zmq::Socket) -> io::Result<AsyncFd<Descriptor>> {
    let descriptor = Descriptor(socket.get_fd()?);
    // SAFETY: libzmq keeps the descriptor open and the same until the socket is closed, and the
    // result goes before it.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

/// An option of type int that the crate has no setter for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IntOption {
    /// Passes every subscription and every withdrawal up, not only the first and the last of a kind.
    XpubVerboser,
    /// Refuses a message that a matching subscriber has no room for, instead of dropping it there.
    XpubNodrop,
    /// A descriptor that listens already, to be bound to.
    UseDescriptor,
    /// Milliseconds that data may stay unacknowledged before the connection is given up.
    TcpMaxrt,
}

/// Sets `option` of `socket`.
pub(crate) fn set(socket: &mut zmq::Socket, option: IntOption, value: c_int) -> io::Result<()> {
    let option = match option {
        IntOption::XpubVerboser => zmq_sys::ZMQ_XPUB_VERBOSER,
        IntOption::XpubNodrop => zmq_sys::ZMQ_XPUB_NODROP,
        IntOption::UseDescriptor => zmq_sys::ZMQ_USE_FD,
        IntOption::TcpMaxrt => zmq_sys::ZMQ_TCP_MAXRT,
    };
    // SAFETY: the socket is alive and borrowed mutably; libzmq copies the value before it returns.
    check(unsafe {
        zmq_sys::zmq_setsockopt(
            socket.as_mut_ptr(),
            option as c_int,
            (&raw const value).cast(),
            size_of::<c_int>(),
        )
    })
}

/// Binds `socket`; the error is the system's.
pub(crate) fn bind(socket: &mut zmq::Socket, endpoint: &str) -> io::Result<()> {
    let endpoint = CString::new(endpoint)?;
    // SAFETY: the socket is alive and borrowed mutably, the text ends in a NUL and outlives the call.
    check(unsafe { zmq_sys::zmq_bind(socket.as_mut_ptr(), endpoint.as_ptr()) })
}

/// Connects `socket`; the error is the system's. What comes of it is told by the monitor.
pub(crate) fn connect(socket: &mut zmq::Socket, endpoint: &str) -> io::Result<()> {
    let endpoint = CString::new(endpoint)?;
    // SAFETY: as in `bind`.
    check(unsafe { zmq_sys::zmq_connect(socket.as_mut_ptr(), endpoint.as_ptr()) })
}

/// Ends the reports to the monitor of `socket`. It must be called before the monitor's receiving end
/// is closed: libzmq reports with sends that wait, and would wait for ever for a receiver.
pub(crate) fn unmonitor(socket: &mut zmq::Socket) {
    // SAFETY: the socket is alive and borrowed mutably; a null address is how a monitor is ended.
    let _ = unsafe { zmq_sys::zmq_socket_monitor(socket.as_mut_ptr(), std::ptr::null(), 0) };
}

/// Sends `message` without waiting. When libzmq does not take it, it stays whole.
pub(crate) fn send(message: &mut zmq::Message, socket: &mut zmq::Socket) -> io::Result<()> {
    let message: *mut zmq::Message = message;
    // SAFETY: `zmq::Message` is a struct of one field, the `zmq_msg_t` (asserted above), so both begin at the
    // same place; both are borrowed mutably. What libzmq took it leaves behind empty, to be dropped.
    let result = unsafe {
        zmq_sys::zmq_msg_send(
            message.cast(),
            socket.as_mut_ptr(),
            zmq_sys::ZMQ_DONTWAIT as c_int,
        )
    };
    // The number of bytes that were taken, or -1.
    check(result.min(0))
}

/// Returns the descriptor of the connection that `message` came over, as libzmq had it then.
pub(crate) fn source(message: &zmq::Message) -> Option<RawFd> {
    let message: *const zmq::Message = message;
    // SAFETY: as in `send`; libzmq only reads it.
    let fd = unsafe { zmq_sys::zmq_msg_get(message.cast(), SRCFD) };
    (fd >= 0).then_some(fd)
}

/// Returns the number of the connection `connection`, its source and its address. The source over the network is what
/// libzmq noted when the connection was made. The port and the user of a local peer are hints, because the connection may
/// have closed since, and its descriptor may belong to another one now.
pub(crate) fn peer(connection: u64, message: &mut zmq::Message) -> Peer {
    let told = message.gets("Peer-Address").map(str::parse::<IpAddr>);
    // SAFETY: the number is not negative; a closed or a strange descriptor makes the calls below fail or
    // tell another address, which the comparison below discards.
    let fd = source(message).map(|fd| unsafe { BorrowedFd::borrow_raw(fd) });
    if let Some(Ok(told)) = told {
        let address = fd.and_then(|fd| rustix::net::getpeername(fd).ok()?);
        let address = address.and_then(|address| SocketAddr::try_from(address).ok());
        return match address.filter(|address| address.ip().to_canonical() == told.to_canonical()) {
            Some(address) => Peer::at(connection, address),
            None => Peer::new(connection, Source::Network(SourceNetwork::of(told))),
        };
    }
    let user = fd.and_then(|fd| rustix::net::sockopt::socket_peercred(fd).ok());
    let source = match user {
        Some(user) => Source::User(user.uid.as_raw()),
        // It went before libzmq could look. All of those are one source.
        None => Source::Network(SourceNetwork::of(Ipv4Addr::UNSPECIFIED.into())),
    };
    Peer::new(connection, source)
}

/// A socket of a connection, recognised by more than its descriptor: the system uses a descriptor
/// again as soon as it is closed, and the number of a socket's inode only after four billion others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketId {
    pub(crate) descriptor: RawFd,
    inode: u64,
}

impl SocketId {
    /// Returns the socket that `descriptor`, which came from libzmq, stands for now.
    pub(crate) fn of(descriptor: RawFd) -> Option<Self> {
        // SAFETY: the number is not negative; a closed descriptor makes fstat fail, a strange one makes
        // it tell another inode, which whoever asks has to reckon with.
        let inode = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(descriptor) }).ok()?;
        Some(Self {
            descriptor,
            inode: inode.st_ino,
        })
    }

    /// Shuts the connection down, if the descriptor still stands for the same socket. The check uses a
    /// duplicate, which stays the same socket. Returns whether it was shut down.
    pub(crate) fn shut_down(self) -> bool {
        // SAFETY: as in `of`; duplicating a closed descriptor fails.
        let fd = unsafe { BorrowedFd::borrow_raw(self.descriptor) };
        let Ok(fd) = rustix::io::fcntl_dupfd_cloexec(fd, 0) else {
            return false;
        };
        let is_same = rustix::fs::fstat(&fd).is_ok_and(|found| found.st_ino == self.inode);
        is_same && rustix::net::shutdown(&fd, rustix::net::Shutdown::Both).is_ok()
    }
}

/// Cuts the TCP connection `fd` if it is one to a port among `ports`. The descriptor is libzmq's and
/// may be another connection's by now: it is looked at through a duplicate, which stays the same
/// connection, so that nothing but a peer of these ports can be cut.
pub(crate) fn cut(fd: RawFd, ports: &[u16]) -> bool {
    // SAFETY: the number came from libzmq and is not negative; duplicating a closed one fails.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let Ok(fd) = rustix::io::fcntl_dupfd_cloexec(fd, 0) else {
        return false;
    };
    let local = rustix::net::getsockname(&fd).map(SocketAddr::try_from);
    let ours = matches!(local, Ok(Ok(local)) if ports.contains(&local.port()));
    ours && matches!(rustix::net::getpeername(&fd), Ok(Some(_)))
        && rustix::net::shutdown(&fd, rustix::net::Shutdown::Both).is_ok()
}

/// Returns the socket and the source of the TCP connection `fd` to one of `ports`. `None` when it has ended: then the
/// descriptor may be that of something else.
pub(crate) fn accepted(fd: RawFd, ports: &[u16]) -> Option<(SocketId, Source)> {
    // SAFETY: the number came from libzmq and is not negative; duplicating a closed one fails.
    let duplicate = rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, 0);
    let socket = duplicate.ok()?;
    let local = SocketAddr::try_from(rustix::net::getsockname(&socket).ok()?).ok()?;
    let peer = SocketAddr::try_from(rustix::net::getpeername(&socket).ok()??).ok()?;
    let inode = rustix::fs::fstat(&socket).ok()?.st_ino;
    let id = SocketId {
        descriptor: fd,
        inode,
    };
    ports
        .contains(&local.port())
        .then(|| (id, Source::of(peer)))
}

/// Returns how many bytes of a TCP connection the peer has acknowledged, and how many it has sent.
/// `None` when `fd` is not a TCP socket. The socket is never changed: the descriptor is libzmq's, and may be another
/// connection's by the time this is called.
pub(crate) fn tcp_progress(fd: RawFd) -> Option<(u64, u64)> {
    unsafe extern "C" {
        fn getsockopt(
            fd: c_int,
            level: c_int,
            name: c_int,
            value: *mut c_void,
            length: *mut u32,
        ) -> c_int;
    }
    const IPPROTO_TCP: c_int = 6;
    const TCP_INFO: c_int = 11;
    // Of linux/tcp.h, `struct tcp_info`: `tcpi_bytes_acked` and `tcpi_bytes_received`.
    const ACKED: usize = 120;
    const RECEIVED: usize = 128;
    let mut info = [0u8; RECEIVED + 8];
    let mut length = info.len() as u32;
    // SAFETY: the kernel writes at most `length` bytes, which `info` has, and says how many.
    let result = unsafe {
        getsockopt(
            fd,
            IPPROTO_TCP,
            TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 || (length as usize) < info.len() {
        return None;
    }
    let number = |at: usize| {
        info.get(at..)?
            .first_chunk()
            .copied()
            .map(u64::from_ne_bytes)
    };
    Some((number(ACKED)?, number(RECEIVED)?))
}

/// Returns the bytes of a received message from `start` on; large ones are not copied.
pub(crate) fn into_bytes(message: zmq::Message, start: usize) -> Bytes {
    /// Below this, a copy costs less than a shared owner.
    const COPY: usize = 512;
    let payload = message.get(start..).unwrap_or_default();
    if payload.len() <= COPY {
        return Bytes::copy_from_slice(payload);
    }
    Bytes::from_owner(Received(message, start))
}

struct Received(zmq::Message, usize);

// SAFETY: a message that nobody else refers to may be read and closed on any thread; libzmq counts
// the references to its content atomically.
unsafe impl Send for Received {}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        self.0.get(self.1..).unwrap_or_default()
    }
}

fn check(result: c_int) -> io::Result<()> {
    if result == -1 {
        Err(last_error())
    } else {
        Ok(())
    }
}

fn last_error() -> io::Error {
    // SAFETY: reads the errno of this thread.
    io::Error::from_raw_os_error(unsafe { zmq_sys::zmq_errno() })
}
