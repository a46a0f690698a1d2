//! Mends libzmq 4.3.4 where a stranger could end the process or make it hold memory without bound, and where
//! child processes would inherit its descriptors.
//!
//! `zmq-sys` builds libzmq from sources that it leaves in its output folder. Some of its files are
//! compiled here again and linked in front of it: the linker takes a
//! file of libzmq's archive only for what is not defined before, so it leaves the originals out. Three files have
//! a few lines changed. Every
//! change names the whole text that it replaces, so that another version of libzmq fails the build
//! instead of being mended wrongly. The others are compiled with definitions that `zeromq-src` leaves out.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What is replaced in a file, by what.
type Change = (&'static str, &'static str);

/// The engine of a connection.
const STREAM_ENGINE: (&str, &[Change]) = (
    "stream_engine_base.cpp",
    &[
        // A heartbeat that was read before its connection broke, and is handled after it, is answered,
        // which asserts that the connection stands. There is nobody to answer.
        (
            "void zmq::stream_engine_base_t::out_event ()
{
    zmq_assert (!_io_error);
",
            "void zmq::stream_engine_base_t::out_event ()
{
    if (unlikely (_io_error))
        return;
",
        ),
        // The frames of a message are kept until the last has come, however many there are. All
        // messages of this transport have one.
        (
            "    if (_mechanism->decode (msg_) == -1)
        return -1;

    if (_has_timeout_timer) {",
            "    if (_mechanism->decode (msg_) == -1)
        return -1;

    if (unlikely (msg_->flags () & msg_t::more)) {
        errno = EPROTO;
        return -1;
    }

    if (_has_timeout_timer) {",
        ),
    ],
);

/// ZMTP.
const ZMTP_ENGINE: (&str, &[Change]) = (
    "zmtp_engine.cpp",
    &[
        // A heartbeat that is too short is answered with bytes from behind it.
        (
            "    if (msg_->is_ping () || msg_->is_pong ())
        return process_heartbeat_message (msg_);
",
            "    if (msg_->is_ping () && msg_->size () < msg_t::ping_cmd_name_size + 2)
        return -1;

    if (msg_->is_ping () || msg_->is_pong ())
        return process_heartbeat_message (msg_);
",
        ),
    ],
);

/// The listener of TCP.
const TCP_LISTENER: (&str, &[Change]) = (
    "tcp_listener.cpp",
    &[
        (
            "#include <fcntl.h>
",
            "#include <fcntl.h>
#include <sys/resource.h>
",
        ),
        // It accepts for as long as there are descriptors, faster than anybody is told of it. The last 64, or the last
        // quarter of few, are for the rest of the process. The system gives the lowest number that is free.
        (
            "    make_socket_noninheritable (sock);

    if (!options.tcp_accept_filters",
            "    struct rlimit limit;
    if (getrlimit (RLIMIT_NOFILE, &limit) == 0
        && limit.rlim_cur != RLIM_INFINITY) {
        const rlim_t quarter = limit.rlim_cur / 4;
        const rlim_t reserved = quarter < 64 ? quarter : 64;
        if (static_cast<rlim_t> (sock) >= limit.rlim_cur - reserved) {
            ::close (sock);
            errno = EMFILE;
            return retired_fd;
        }
    }

    make_socket_noninheritable (sock);

    if (!options.tcp_accept_filters",
        ),
    ],
);

/// The files that open descriptors, beside [`TCP_LISTENER`].
const OPENERS: [&str; 3] = ["epoll.cpp", "ip.cpp", "ipc_listener.cpp"];

/// Makes [`OPENERS`] and [`TCP_LISTENER`] open every descriptor with close-on-exec. `zeromq-src` does not look for these calls of
/// Linux: without them a child process inherits each epoll descriptor, and a socket when it is started
/// between two calls of libzmq.
const CLOSE_ON_EXEC: [&str; 3] = [
    "ZMQ_IOTHREAD_POLLER_USE_EPOLL_CLOEXEC",
    "ZMQ_HAVE_SOCK_CLOEXEC",
    "HAVE_ACCEPT4",
];

/// Names in the archive that `zeromq-src` built, which stand there exactly if it was built with definitions of which the
/// layout of a class depends: whether each does. What is compiled here shares these classes with it, and a layout
/// of its own would be no error of the linker.
const LAYOUT: [(&str, &str, bool); 13] = [
    ("ZMQ_IOTHREAD_POLLER_USE_EPOLL", "_ZN3zmq7epoll_tC", true),
    ("ZMQ_IOTHREAD_POLLER_USE_POLL", "_ZN3zmq6poll_tC", false),
    ("ZMQ_IOTHREAD_POLLER_USE_SELECT", "_ZN3zmq8select_tC", false),
    ("ZMQ_USE_CV_IMPL_STL11", "condition_variable_any", true),
    ("ZMQ_HAVE_IPC", "_ZN3zmq14ipc_listener_tC", true),
    // Of options_t.
    (
        "ZMQ_HAVE_SO_PEERCRED",
        "_ZN3zmq14ipc_listener_t6filterE",
        false,
    ),
    ("ZMQ_HAVE_VMCI", "_ZN3zmq15vmci_listener_tC", false),
    // Of ctx_t, signaler_t and the mailboxes.
    ("HAVE_FORK", "_ZN3zmq9mailbox_t6forkedE", false),
    ("ZMQ_HAVE_WS", "_ZN3zmq11ws_engine_tC", true),
    ("ZMQ_HAVE_WSS", "_ZN3zmq12wss_engine_tC", false),
    ("ZMQ_HAVE_CURVE", "_ZN3zmq14curve_server_tC", false),
    ("HAVE_LIBGSSAPI_KRB5", "_ZN3zmq15gssapi_server_tC", false),
    ("ZMQ_HAVE_TIPC", "_ZN3zmq15tipc_listener_tC", false),
];

/// Fails when `zeromq-src` built its archive with another layout of classes than the definitions here give.
fn check_layout(archive: &Path) -> Result<(), Box<dyn Error>> {
    let archive = fs::read(archive)?;
    for (definition, name, is_expected) in LAYOUT {
        let is_there = archive
            .windows(name.len())
            .any(|window| window == name.as_bytes());
        if is_there != is_expected {
            return Err(format!(
                "zeromq-src decides otherwise about {definition} than transports/zeromq/build.rs: compare what both \
                 define, or classes have two layouts"
            )
            .into());
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS")? != "linux" {
        println!(
            "cargo:warning=libzmq is mended on Linux only: a stranger can end this process, and children inherit its descriptors"
        );
        return Ok(());
    }
    // Where `zmq-sys` built libzmq.
    let built = PathBuf::from(env::var("DEP_ZMQ_OUT")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let sources = built.join("source/src");
    check_layout(&built.join("lib/libzmq.a"))?;
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .cargo_metadata(false)
        .warnings(false)
        .include(built.join("source/include"))
        .include(&sources)
        .include(&built);
    // What `zeromq-src` defines for Linux: the layout of what both see depends on it, as `LAYOUT` checks.
    for (name, value) in [
        ("ZMQ_USE_CV_IMPL_STL11", "1"),
        ("ZMQ_STATIC", "1"),
        ("ZMQ_USE_BUILTIN_SHA1", "1"),
        ("ZMQ_HAVE_WS", "1"),
        ("ZMQ_IOTHREAD_POLLER_USE_EPOLL", "1"),
        ("ZMQ_POLL_BASED_ON_POLL", "1"),
        ("ZMQ_HAVE_IPC", "1"),
        ("HAVE_STRNLEN", "1"),
        ("ZMQ_HAVE_UIO", "1"),
    ] {
        build.define(name, value);
    }
    for name in CLOSE_ON_EXEC {
        build.define(name, "1");
    }
    for name in OPENERS {
        build.file(sources.join(name));
    }
    for (name, changes) in [STREAM_ENGINE, ZMTP_ENGINE, TCP_LISTENER] {
        build.file(mend(&sources.join(name), changes, &out)?);
    }
    build.try_compile("saline_zmq_mended")?;
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=saline_zmq_mended");
    Ok(())
}

/// Writes the mended file into `out`, and returns its path.
fn mend(source: &Path, changes: &[Change], out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let mut text = fs::read_to_string(source)?;
    for (old, new) in changes {
        if text.matches(old).count() != 1 {
            let source = source.display();
            return Err(format!(
                "{source} is not libzmq 4.3.4's: look what of transports/zeromq/build.rs it needs, and \
                 change that"
            )
            .into());
        }
        text = text.replace(old, new);
    }
    let name = source.file_name().ok_or("a source without a name")?;
    let mended = out.join(name);
    fs::write(&mended, text)?;
    Ok(mended)
}
