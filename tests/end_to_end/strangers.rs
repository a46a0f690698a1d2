//! Silent strangers in greater number than the master has descriptors for: who comes from elsewhere is served.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
use saline_testing::Fleet;

/// The descriptors of the master.
const DESCRIPTORS: usize = 400;
/// The strangers at each port.
const STRANGERS: usize = 450;
/// Their address: another source than that of the minions.
const ELSEWHERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 0);

/// Connects from elsewhere to a port of the master.
fn come(port: u16) -> TcpStream {
    // Other tests start daemons, which must not inherit it.
    let stranger = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    bind(&stranger, &ELSEWHERE).unwrap();
    connect(&stranger, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
    let stranger = TcpStream::from(stranger);
    stranger.set_nonblocking(true).unwrap();
    stranger
}

/// Whether the master has ended the connection.
fn is_cut(stranger: &mut TcpStream) -> bool {
    // libzmq greets first.
    loop {
        match stranger.read(&mut [0; 256]) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Keeps a crowd at a port until `is_over`: those that are cut come again. Counts them in `came`.
fn crowd(port: u16, is_over: &AtomicBool, came: &AtomicUsize) {
    let mut strangers: Vec<TcpStream> = (0..STRANGERS).map(|_| come(port)).collect();
    came.fetch_add(STRANGERS, Ordering::SeqCst);
    let pause = Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    while !is_over.load(Ordering::SeqCst) {
        let mut watched: Vec<PollFd<'_>> = strangers
            .iter()
            .map(|stranger| PollFd::new(stranger, PollFlags::IN))
            .collect();
        poll(&mut watched, Some(&pause)).unwrap();
        drop(watched);
        for stranger in &mut strangers {
            if is_cut(stranger) {
                *stranger = come(port);
                came.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Returns a command that starts the master with few descriptors.
fn with_few_descriptors(master: &Command) -> Command {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\""),
    ]);
    command.arg(master.get_program()).args(master.get_args());
    command
}

/// Starts a master, runs the operator's command and a new minion while `strangers` are there.
fn others_are_served(
    transport: &'static str,
    wait_for: usize,
    strangers: impl Fn(&Fleet, &AtomicBool, &AtomicUsize) + Sync,
) {
    // The strangers' own descriptors.
    raise_own_limit();
    let mut fleet = Fleet::new(transport, "auto_accept: True\n");
    fleet.start_master_by(with_few_descriptors(&fleet.master_command()));
    fleet.start_minion("before");
    fleet.minions["before"].log.wait_for("subscribed", 1);
    let (is_over, came) = (AtomicBool::new(false), AtomicUsize::new(0));
    let new = std::thread::scope(|scope| {
        let over = EndOnDrop(&is_over);
        let crowds = scope.spawn(|| strangers(&fleet, &is_over, &came));
        while came.load(Ordering::SeqCst) < wait_for {
            assert!(!crowds.is_finished(), "the strangers have gone");
            std::thread::yield_now();
        }
        fleet.saline(&["before", "test.ping"]).expect(0);
        let new = fleet.spawn_minion("new", "new", "");
        new.log.wait_for("subscribed", 1);
        fleet.saline(&["*", "test.ping"]).expect(0);
        drop(over);
        new
    });
    let master = fleet.master();
    assert_eq!(
        fleet.minions["before"].log.count("subscribed"),
        1,
        "{}",
        master.log.text()
    );
    assert_eq!(new.log.count("subscribed"), 1);
}

/// Ends the crowd also when the test fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Raises the limit of this process, which holds the strangers.
pub fn raise_own_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .unwrap();
}

#[test]
fn silent_strangers_keep_nobody_else_out_over_tcp() {
    others_are_served("tcp", STRANGERS, |fleet, is_over, came| {
        crowd(fleet.port(), is_over, came)
    });
}

#[test]
fn silent_strangers_keep_nobody_else_out_over_zeromq() {
    others_are_served("zeromq", 2 * STRANGERS, |fleet, is_over, came| {
        std::thread::scope(|scope| {
            scope.spawn(|| crowd(fleet.publish_port(), is_over, came));
            crowd(fleet.port(), is_over, came);
        });
    });
}

/// Over QUIC a connection has no descriptor of its own. What strangers send is as long as a first datagram has to be.
#[test]
fn strangers_keep_nobody_else_out_over_quic() {
    others_are_served("quic", STRANGERS, |fleet, is_over, came| {
        let mut datagram = vec![0; 1200];
        // An Initial packet of version 1, with a connection id of eight bytes that each stranger sets.
        datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
        let strangers: Vec<_> = (0..STRANGERS)
            .map(|_| UdpSocket::bind(ELSEWHERE).unwrap())
            .collect();
        while !is_over.load(Ordering::SeqCst) {
            for (number, stranger) in (0u64..).zip(&strangers) {
                datagram[6..14].copy_from_slice(&number.to_le_bytes());
                stranger
                    .send_to(&datagram, (Ipv4Addr::LOCALHOST, fleet.port()))
                    .unwrap();
                came.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
}
