//! Unix sockets.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::support::{TestServer, at, connect, context, eventually, limits, soon, transport};
use saline_protocol::transport::{Clock, Delivery, Endpoint, ErrorKind, TopicFilter};
use tempfile::TempDir;

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(folder.path(), private).unwrap();
    folder
}

fn endpoint(path: &Path) -> Endpoint {
    Endpoint::local("tcp", path)
}

async fn serve(path: &Path) -> Result<TestServer, ErrorKind> {
    let server = TestServer::with(endpoint(path), limits()).await;
    server.map_err(|error| error.kind())
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

#[tokio::test]
async fn the_same_code_serves_a_path() {
    let folder = folder();
    let path = folder.path().join("made/for/it/socket");
    let mut server = serve(&path).await.unwrap();
    assert_eq!(server.server.bound.requests, endpoint(&path));
    assert_eq!(mode(&path), 0o600);
    for made in ["made", "made/for", "made/for/it"] {
        assert_eq!(mode(&folder.path().join(made)), 0o700, "{made}");
    }
    let client = server.client().await;
    server.works(&*client).await;
    let topic: saline_protocol::transport::Topic = "t".parse().unwrap();
    let filters = vec![TopicFilter::Exact(topic.clone())];
    let subscribed = client
        .subscribe(None, filters, Clock.after(crate::support::SOON))
        .await;
    let mut subscriber = subscribed.unwrap();
    server
        .server
        .publisher
        .publish(&topic, "news".into())
        .await
        .unwrap();
    let delivery = soon(subscriber.next()).await.unwrap();
    assert!(matches!(delivery, Delivery::Message { payload, .. } if payload == "news"));
    server.shut_down().await;
    assert!(!path.exists(), "the socket's file is still there");
}

#[tokio::test]
async fn the_file_goes_with_a_server_that_is_dropped() {
    let folder = folder();
    let path = folder.path().join("socket");
    let server = serve(&path).await.unwrap();
    let context = server.context.clone();
    drop(server);
    eventually("its tasks are gone", || context.tracker.is_empty()).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn what_a_dead_process_left_is_replaced() {
    let folder = folder();
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let mut server = serve(&path).await.unwrap();
    let client = server.client().await;
    server.works(&*client).await;
}

#[tokio::test]
async fn a_living_socket_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("socket");
    let mut server = serve(&path).await.unwrap();
    let client = server.client().await;
    for _ in 0..3 {
        assert_eq!(serve(&path).await.err(), Some(ErrorKind::Refused));
        server.works(&*client).await;
        server
            .works(&*crate::support::TestServer::client(&server).await)
            .await;
    }
    // Also one that is not ours and never accepts.
    let foreign = folder.path().join("foreign");
    let _listener = UnixListener::bind(&foreign).unwrap();
    assert_eq!(serve(&foreign).await.err(), Some(ErrorKind::Refused));
}

#[tokio::test]
async fn of_many_that_start_at_once_one_wins() {
    let folder = folder();
    let path = folder.path().join("socket");
    for _ in 0..20 {
        drop(UnixListener::bind(&path).unwrap());
        let (a, b, c) = tokio::join!(serve(&path), serve(&path), serve(&path));
        let (won, lost): (Vec<_>, Vec<_>) = [a, b, c].into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 2));
        for server in won.into_iter().flatten() {
            let client = server.client().await;
            drop(client);
            server.shut_down().await;
        }
    }
}

#[tokio::test]
async fn what_is_not_a_socket_stays() {
    let folder = folder();
    let path = folder.path().join("file");
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(serve(&path).await.err(), Some(ErrorKind::Refused));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[tokio::test]
async fn a_folder_that_others_can_write_to_is_refused() {
    let folder = folder();
    for open in [0o770, 0o702, 0o777, 0o1777] {
        let permissions = std::fs::Permissions::from_mode(open);
        std::fs::set_permissions(folder.path(), permissions).unwrap();
        let path = folder.path().join("socket");
        assert_eq!(
            serve(&path).await.err(),
            Some(ErrorKind::Refused),
            "{open:o}"
        );
        assert!(!path.exists());
    }
}

#[tokio::test]
async fn a_path_that_is_too_long_is_a_mistake_of_the_configuration() {
    let folder = folder();
    let path = folder.path().join("x".repeat(108));
    assert_eq!(serve(&path).await.err(), Some(ErrorKind::Config));
    let connected = connect(&endpoint(&path)).await;
    assert_eq!(connected.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let folder = folder();
    let path = folder.path().join("socket");
    let absent = connect(&endpoint(&path)).await;
    assert_eq!(absent.unwrap_err().kind(), ErrorKind::Unreachable);
    drop(UnixListener::bind(&path).unwrap());
    let dead = connect(&endpoint(&path)).await;
    assert_eq!(dead.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_dropped_serve_leaves_nothing() {
    let folder = folder();
    let path = folder.path().join("socket");
    // Its folder is locked, so it waits.
    let lock = std::fs::File::open(folder.path()).unwrap();
    lock.lock().unwrap();
    let transport = transport();
    let (context, _) = context(limits());
    let serving = transport.serve(at(endpoint(&path)), context.clone());
    let waiting = Clock
        .deadline(Clock.after(crate::support::PING), serving)
        .await;
    assert!(waiting.is_err());
    assert!(context.tracker.is_empty());
    drop(lock);
    let server = serve(&path).await.unwrap();
    server.shut_down().await;
}

/// Names the socket to connect to, in the process that [`other_users_are_refused`] starts.
const CONNECT: &str = "SALINE_TCP_TEST_CONNECT";
/// Nobody, everywhere.
const NOBODY: u32 = 65_534;

/// Runs as another user: says whether a connection is kept.
#[tokio::test]
async fn as_another_user() {
    let Some(path) = std::env::var_os(CONNECT) else {
        return;
    };
    let kind = connect(&endpoint(Path::new(&path))).await.err();
    let kind = kind.map_or("connected", |error| error.kind().name());
    println!("outcome: {kind}");
}

#[tokio::test]
async fn other_users_are_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let folder = folder();
    let path = folder.path().join("socket");
    let mut server = serve(&path).await.unwrap();
    let client = server.client().await;
    // Everything that stands before the check of the user is taken away.
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o755);
    open(&path, 0o666);
    let program = folder.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    open(&program, 0o755);
    for (uid, outcome) in [(0, "connected"), (NOBODY, "unreachable")] {
        let (program, path) = (program.clone(), path.clone());
        let run = context(limits()).0.spawn_blocking(move || {
            Command::new(program)
                .args(["--exact", "local_endpoints::as_another_user", "--nocapture"])
                .current_dir("/")
                .env(CONNECT, path)
                .uid(uid)
                .output()
                .unwrap()
        });
        let output = soon(run).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains(&format!("outcome: {outcome}")),
            "user {uid}: {said}"
        );
    }
    assert_eq!(server.refused(), 1);
    server.works(&*client).await;
}
