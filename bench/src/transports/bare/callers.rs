//! A bare client with a task for every request, as the contract's callers are: each takes a number,
//! puts its frame where the writer finds it, and awaits its own reply.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use saline_protocol::transport::Clock;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use super::frame::{ROOM, put, take};
use crate::Result;

/// The state that callers, reader and writer share.
#[derive(Debug)]
struct SharedCallers {
    output: Mutex<Vec<u8>>,
    written: Notify,
    waiting: Vec<Mutex<Option<oneshot::Sender<Bytes>>>>,
    over: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps `outstanding` callers asking for `run`, and returns how many replies they had.
pub(crate) async fn ask(
    reader: impl AsyncRead + Unpin + Send + 'static,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    outstanding: usize,
    bytes: usize,
    run: Duration,
) -> Result<u64> {
    let shared = Arc::new(SharedCallers {
        output: Mutex::default(),
        written: Notify::new(),
        waiting: (0..outstanding).map(|_| Mutex::default()).collect(),
        over: AtomicBool::new(false),
    });
    // Aborted when this returns.
    let mut tasks = JoinSet::new();
    tasks.spawn(write(writer, Arc::clone(&shared)));
    tasks.spawn(read(reader, Arc::clone(&shared)));
    let payload = Bytes::from(vec![7; bytes]);
    let mut callers = JoinSet::new();
    for number in 0..outstanding {
        callers.spawn(call(Arc::clone(&shared), number, payload.clone()));
    }
    Clock.pause(run).await;
    shared.over.store(true, Ordering::Relaxed);
    let mut answered = 0;
    while let Some(caller) = callers.join_next().await {
        answered += caller??;
    }
    Ok(answered)
}

async fn call(shared: Arc<SharedCallers>, number: usize, payload: Bytes) -> Result<u64> {
    let mut answered = 0;
    while !shared.over.load(Ordering::Relaxed) {
        let (reply, replied) = oneshot::channel();
        *lock(&shared.waiting[number]) = Some(reply);
        put(&mut lock(&shared.output), number as u64, &payload);
        shared.written.notify_one();
        if replied.await?.len() != payload.len() {
            return Err("an echo of another length".into());
        }
        answered += 1;
    }
    Ok(answered)
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    shared: Arc<SharedCallers>,
) -> std::io::Result<()> {
    let mut output = Vec::new();
    loop {
        shared.written.notified().await;
        // Others are about to ask too: all of it goes in one write.
        tokio::task::yield_now().await;
        std::mem::swap(&mut output, &mut lock(&shared.output));
        writer.write_all(&output).await?;
        output.clear();
    }
}

async fn read(
    mut reader: impl AsyncRead + Unpin,
    shared: Arc<SharedCallers>,
) -> std::io::Result<()> {
    let mut input = BytesMut::with_capacity(ROOM);
    while reader.read_buf(&mut input).await? > 0 {
        while let Some((number, payload)) = take(&mut input) {
            let caller = shared.waiting.get(number as usize);
            if let Some(caller) = caller.and_then(|slot| lock(slot).take()) {
                let _ = caller.send(payload);
            }
        }
        input.reserve(ROOM / 2);
    }
    Ok(())
}
