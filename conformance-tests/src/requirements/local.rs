//! `BUS`: local endpoints that are sockets in the file system, which the local event bus and the
//! command line go over.

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use saline_protocol::transport::{Address, Endpoint, ErrorKind, LocalAccess, ServeAt, Source};

use crate::failure::{ensure, ensure_eq, is_error};
use crate::kit::{Place, Raw, RawListener, TEST_TIMEOUT, World, echo, exact, topic};
use crate::{Expecting, Failure, Level, Need, Outcome, Requirement, UnixSocket, Wire};

/// The requirements of this area.
pub const ALL: &[Requirement] = &[
    Requirement {
        id: "BUS-001",
        name: "closed_to_others",
        level: Level::Should,
        sentence: "No other user can connect to a local endpoint, whatever the umask is and although its folder is open to all; or serving there is refused.",
        why: "Whoever reaches the local endpoint of a master stands before its operators' door.",
        look_at: "the mode of the socket between bind and listen",
        needs: &[Need::LocalSockets, Need::OwnProcess],
        run: |world| Box::pin(closed_to_others(world)),
    },
    Requirement {
        id: "BUS-002",
        name: "path_too_long",
        level: Level::Must,
        sentence: "A path that is longer than a socket's name can be is refused with Config or Refused when serving, and with Config or Unreachable when connecting, and nothing is bound under a shorter one; or it works.",
        why: "The system cuts a hundred and eight bytes off without a word.",
        look_at: "sun_path",
        needs: &[Need::LocalSockets],
        run: |world| Box::pin(path_too_long(world)),
    },
    Requirement {
        id: "BUS-003",
        name: "stale_socket",
        level: Level::Must,
        sentence: "A socket that a dead process left at the path is replaced.",
        why: "A master that was killed must start again without a hand.",
        look_at: "bind fails where a file is; connect says whether somebody listens",
        needs: &[Need::LocalSockets],
        run: |world| Box::pin(stale_socket(world)),
    },
    Requirement {
        id: "BUS-004",
        name: "living_socket",
        level: Level::Must,
        sentence: "Where somebody else listens, serving is Refused, and whoever listens keeps the path.",
        why: "Two masters with one socket directory must not take the path from each other.",
        look_at: "unlinking before binding",
        needs: &[Need::LocalSockets],
        run: |world| Box::pin(living_socket(world)),
    },
    Requirement {
        id: "BUS-005",
        name: "no_socket",
        level: Level::Must,
        sentence: "Where something stands that is no socket, serving is Refused, and it stays as it was.",
        why: "A path that was mistyped must not cost a file.",
        look_at: "unlinking before binding",
        needs: &[Need::LocalSockets],
        run: |world| Box::pin(no_socket(world)),
    },
    Requirement {
        id: "BUS-006",
        name: "nothing_stays",
        level: Level::Must,
        sentence: "After a shutdown no socket stays in the folder; what somebody else has put at the path meanwhile does.",
        why: "What stays looks like a server that does not answer.",
        look_at: "who removes the file, and whether it is still the own one",
        needs: &[Need::LocalSockets],
        run: |world| Box::pin(nothing_stays(world)),
    },
    Requirement {
        id: "BUS-007",
        name: "source_of_a_local_peer",
        level: Level::Must,
        sentence: "The source of a local peer is the user that it runs as.",
        why: "The users of one machine must not keep each other out.",
        look_at: "SO_PEERCRED, when the connection is accepted",
        needs: &[Need::LocalSockets],
        run: |world| Box::pin(source_of_a_local_peer(world)),
    },
    Requirement {
        id: "BUS-008",
        name: "open_to_every_user",
        level: Level::Must,
        sentence: "A local endpoint that is served for every user lets every user connect, whatever the umask is, and tells which user each peer is.",
        why: "Users of a machine give orders by their own rights, and who they are is what the system says.",
        look_at: "the mode of the socket; a check of the peer that is left over",
        needs: &[Need::LocalSockets, Need::LocalUsers, Need::OwnProcess],
        run: |world| Box::pin(open_to_every_user(world)),
    },
];

/// Requests and publications in `folder`.
fn places(world: &World, folder: &Path) -> ServeAt {
    let (scheme, apart) = (
        world.transport.scheme(),
        world.transport.capabilities().publications_apart,
    );
    ServeAt {
        requests: Endpoint::local(scheme, folder.join("requests")),
        publications: apart.then(|| Endpoint::local(scheme, folder.join("publications"))),
    }
}

fn paths(at: &ServeAt) -> Vec<&Path> {
    let both = [Some(&at.requests), at.publications.as_ref()];
    let paths = both
        .into_iter()
        .flatten()
        .map(|place| match &place.address {
            Address::Local(path) => Some(path.as_path()),
            Address::Network { .. } => None,
        });
    paths.flatten().collect()
}

/// What the suite's own files cannot do is the suite's failure.
fn file<T>(result: std::io::Result<T>) -> Outcome<T> {
    result.map_err(|error| Failure::new(format!("a file of the suite: {error}")))
}

/// Every socket beneath `folder`, with whether others are kept out of it.
fn sockets(folder: &Path) -> Outcome<Vec<(PathBuf, bool)>> {
    let mut found = Vec::new();
    for entry in file(std::fs::read_dir(folder))? {
        let path = file(entry)?.path();
        let standing = file(std::fs::symlink_metadata(&path))?;
        if standing.is_dir() {
            let closed = standing.mode() & 0o077 == 0;
            let beneath = sockets(&path)?.into_iter();
            found.extend(beneath.map(|(path, own)| (path, own || closed)));
        } else if standing.file_type().is_socket() {
            // Connecting takes the right to write.
            found.push((path, standing.mode() & 0o022 == 0));
        }
    }
    Ok(found)
}

/// What kind of socket is at the paths of this backend.
fn kind(world: &World) -> UnixSocket {
    match world.backend().wire() {
        Some(Wire::UnixPath(kind)) => kind,
        _ => UnixSocket::Stream,
    }
}

/// Somebody else who listens at `path`.
fn somebody(world: &World, path: &Path) -> Outcome<RawListener> {
    file(RawListener::at_path(path, kind(world)))
}

/// A request and a publication at `at`, and its end.
async fn works(world: &World, at: ServeAt) -> Outcome {
    let host = world.try_serve(at, world.limits()).await;
    let host = host.expecting("serving a path")?.echoing(world);
    let caller = world.client(&host).await?;
    let reply = caller.ask("hello").await.expecting("a request")?;
    ensure_eq!(reply, Bytes::from("hello"), "the reply");
    let mut listener = caller.subscribe(&[exact("t")?]).await?;
    host.publish(&topic("t")?, "news").await?;
    let (_, payload) = listener.message().await?;
    ensure_eq!(payload, Bytes::from("news"), "the publication");
    caller.shut_down().await?;
    host.shut_down(TEST_TIMEOUT)
        .await?
        .expecting("shutting down")
}

async fn closed_to_others(world: Arc<World>) -> Outcome {
    // Of the whole process, which is this requirement's own.
    rustix::process::umask(rustix::fs::Mode::empty());
    let folder = world.folder().join("open");
    file(std::fs::create_dir(&folder))?;
    file(std::fs::set_permissions(
        &folder,
        std::fs::Permissions::from_mode(0o755),
    ))?;
    match world
        .try_serve(places(&world, &folder), world.limits())
        .await
    {
        Err(error) => is_error(
            &Err::<(), _>(error),
            ErrorKind::Refused,
            "serving in a folder that is open to all",
        ),
        Ok(host) => {
            let sockets = sockets(&folder)?;
            ensure!(!sockets.is_empty(), "no socket is where one was served");
            for (path, closed) in sockets {
                ensure!(closed, "{} lets other users in", path.display());
            }
            host.kill().await
        }
    }
}

async fn path_too_long(world: Arc<World>) -> Outcome {
    let folder = world.folder().join("long".repeat(60));
    file(std::fs::create_dir(&folder))?;
    let at = places(&world, &folder);
    let connecting = world.try_client(&at, world.limits()).await;
    match connecting.as_ref().map_err(|error| error.kind()) {
        Err(ErrorKind::Config | ErrorKind::Unreachable) => {}
        other => return Err(Failure::new(format!("connecting to it came to {other:?}"))),
    }
    match world.try_serve(at.clone(), world.limits()).await {
        Ok(host) => {
            for path in paths(&at) {
                let standing = std::fs::symlink_metadata(path);
                ensure!(standing.is_ok(), "it is served, but not at its path");
            }
            host.kill().await?;
            works(&world, at).await
        }
        Err(error) => {
            ensure!(
                matches!(error.kind(), ErrorKind::Config | ErrorKind::Refused),
                "serving a path that is too long: {error}"
            );
            let left = sockets(world.folder())?;
            ensure!(left.is_empty(), "sockets were left: {left:?}");
            Ok(())
        }
    }
}

async fn stale_socket(world: Arc<World>) -> Outcome {
    let at = places(&world, world.folder());
    for _ in 0..3 {
        for path in paths(&at) {
            // Dropping it closes it and leaves the file.
            drop(somebody(&world, path)?);
        }
        works(&world, at.clone()).await?;
    }
    Ok(())
}

async fn living_socket(world: Arc<World>) -> Outcome {
    let at = places(&world, world.folder());
    for path in paths(&at) {
        let somebody = somebody(&world, path)?;
        let before = file(std::fs::symlink_metadata(path))?.ino();
        let served = world.try_serve(at.clone(), world.limits()).await;
        is_error(
            &served,
            ErrorKind::Refused,
            "serving where somebody else listens",
        )?;
        let after = std::fs::symlink_metadata(path).map(|found| found.ino());
        ensure!(
            after.is_ok_and(|after| after == before),
            "whoever listened at {} has lost the path",
            path.display()
        );
        file(Raw::connect(&Place::Path(path.to_owned(), kind(&world))).await)?;
        drop(somebody);
        file(std::fs::remove_file(path))?;
    }
    works(&world, at).await
}

async fn no_socket(world: Arc<World>) -> Outcome {
    const TEXT: &str = "somebody's work";
    let at = places(&world, world.folder());
    for path in paths(&at) {
        file(std::fs::write(path, TEXT))?;
        let served = world.try_serve(at.clone(), world.limits()).await;
        is_error(&served, ErrorKind::Refused, "serving where a file is")?;
        let text = std::fs::read_to_string(path).unwrap_or_default();
        ensure_eq!(text, TEXT, "what the file says");
        file(std::fs::remove_file(path))?;
    }
    works(&world, at).await
}

async fn nothing_stays(world: Arc<World>) -> Outcome {
    let folder = world.folder().join("own");
    file(std::fs::create_dir(&folder))?;
    for _ in 0..3 {
        works(&world, places(&world, &folder)).await?;
        let left = sockets(&folder)?;
        ensure!(left.is_empty(), "sockets were left: {left:?}");
    }
    let at = places(&world, &folder);
    let host = world.try_serve(at.clone(), world.limits()).await;
    let host = host.expecting("serving a path")?;
    for path in paths(&at) {
        file(std::fs::remove_file(path))?;
        file(std::fs::write(path, "somebody's work"))?;
    }
    host.shut_down(TEST_TIMEOUT)
        .await?
        .expecting("shutting down")?;
    for path in paths(&at) {
        ensure!(
            std::fs::read(path).is_ok(),
            "{} was put there by somebody else, and removed with the server",
            path.display()
        );
    }
    Ok(())
}

async fn source_of_a_local_peer(world: Arc<World>) -> Outcome {
    let at = places(&world, world.folder());
    let served = world.try_serve(at, world.limits()).await;
    let mut host = served.expecting("serving at a path")?;
    let caller = world.client(&host).await?;
    let (reply, request) = tokio::join!(caller.ask("who am I?"), async {
        let request = host.requests.next().await?;
        let source = request.peer.source;
        echo(request);
        Outcome::Ok(source)
    });
    reply.expecting("a request")?;
    let user = Source::User(rustix::process::getuid().as_raw());
    ensure_eq!(request?, user, "the source of a peer of this user");
    Ok(())
}

async fn open_to_every_user(world: Arc<World>) -> Outcome {
    // Of the whole process, which is this requirement's own.
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
    let at = places(&world, world.folder());
    let served = world.try_serve_to(at.clone(), LocalAccess::EveryUser).await;
    let mut host = served.expecting("serving a path for every user")?;
    for path in paths(&at) {
        let mode = file(std::fs::symlink_metadata(path))?.mode() & 0o777;
        ensure_eq!(mode & 0o666, 0o666, "what users may do with the socket");
    }
    let caller = world.client(&host).await?;
    let (reply, request) = tokio::join!(caller.ask("who am I?"), async {
        let request = host.requests.next().await?;
        let source = request.peer.source;
        echo(request);
        Outcome::Ok(source)
    });
    reply.expecting("a request")?;
    let user = Source::User(rustix::process::getuid().as_raw());
    ensure_eq!(request?, user, "the source of a peer of this user");
    host.kill().await
}
