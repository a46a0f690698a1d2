//! The time within which every request is answered, and each of its chunks is carried out, whatever the master does.

use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use saline_client::data::Value;
use saline_client::transport::Clock;

use crate::error::ApiError;
use crate::limits::{CHUNK_TIMEOUT, MAX_CHUNKS, REQUEST_TIMEOUT};
use crate::lowstate::Chunk;

/// [`MAX_CHUNKS`], to multiply times by.
const MOST_CHUNKS: u32 = MAX_CHUNKS as u32;

/// Has the request answered in time. A stream of events has its deadline for its beginning alone.
pub(crate) async fn bound(request: Request, next: Next) -> Response {
    let limit = limit(request.uri().path());
    let answered = next.run(request);
    match Clock.deadline(Clock.after(limit), answered).await {
        Ok(response) => response,
        Err(_) => ApiError::TimedOut(format!(
            "the answer takes longer than {} s; a job or run that was begun goes on, and its jid is in /jobs",
            limit.as_secs()
        ))
        .into_response(),
    }
}

/// Returns how long the answer to a request for this path may take. Where it waits for the returns of minions, each of its chunks has
/// a deadline of its own, and this is the time of all of them.
fn limit(path: &str) -> Duration {
    let waits = matches!(path.trim_end_matches('/'), "" | "/run" | "/minions")
        || path.starts_with("/minions/");
    match waits {
        true => MOST_CHUNKS * CHUNK_TIMEOUT + REQUEST_TIMEOUT,
        false => REQUEST_TIMEOUT,
    }
}

/// Has each chunk of a request carried out in time, one after the other. Returns what they add to `return`.
///
/// # Errors
/// `TimedOut` when one of them takes too long, and others as they fail. Those after it are not begun.
///
/// # Cancel safety
/// A job or a run that was begun goes on, and chunks after it are not begun.
pub(crate) async fn each_in_time<'c, F>(
    chunks: &'c [Chunk],
    carry_out: impl Fn(&'c Chunk) -> F,
) -> Result<Vec<Value>, ApiError>
where
    F: Future<Output = Result<Vec<Value>, ApiError>>,
{
    let mut returned = Vec::new();
    for (chunk, number) in chunks.iter().zip(1..) {
        let carried_out = carry_out(chunk);
        let until = Clock.after(CHUNK_TIMEOUT);
        match Clock.deadline(until, carried_out).await {
            Ok(values) => returned.extend(values?),
            Err(_) => return Err(too_slow(number, chunks.len())),
        }
    }
    Ok(returned)
}

fn too_slow(number: usize, of: usize) -> ApiError {
    let which = match of {
        1 => "the answer".to_owned(),
        _ => format!("chunk {number} of {of}"),
    };
    let after = match of - number {
        0 => "",
        _ => "; the chunks after it were not begun",
    };
    ApiError::TimedOut(format!(
        "{which} takes longer than {} s; a job or run that was begun goes on, and its jid is in /jobs{after}",
        CHUNK_TIMEOUT.as_secs()
    ))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::routing::get;
    use saline_config::RestCherrypyConfig;
    use tower_service::Service as _;

    use super::*;
    use crate::api::Api;
    use crate::endpoints::layered;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_takes_too_long_is_answered_all_the_same() {
        let api = Api::without_master(&RestCherrypyConfig::on_port(0));
        let routes = Router::new()
            .route("/", get(std::future::pending::<()>))
            .route("/run", get(std::future::pending::<()>))
            .route("/run/", get(std::future::pending::<()>))
            .route("/logout", get(std::future::pending::<()>))
            .fallback(std::future::pending::<()>)
            .method_not_allowed_fallback(std::future::pending::<()>);
        let mut router = layered(routes, api);
        for (method, path, limit) in [
            ("GET", "/", limit("/")),
            ("GET", "/run", limit("/")),
            ("GET", "/run/", limit("/")),
            ("GET", "/logout", REQUEST_TIMEOUT),
            ("GET", "/nothing", REQUEST_TIMEOUT),
            ("DELETE", "/logout", REQUEST_TIMEOUT),
        ] {
            let request = Request::builder().method(method).uri(path);
            let began = Clock.now();
            let answer = router.call(request.body(Body::empty()).unwrap());
            let answer = Clock.deadline(Clock.after(2 * limit), answer).await;
            assert_eq!(answer.unwrap().unwrap().status(), 504, "{method} {path}");
            assert_eq!((Clock.now() - began).as_secs(), limit.as_secs(), "{path}");
        }
    }

    /// Makes chunks of which each names how many seconds it takes.
    fn chunks(seconds: &[u64]) -> Vec<Chunk> {
        let chunk = |seconds| Chunk::new(vec![("takes".to_owned(), Value::from(seconds))]);
        seconds
            .iter()
            .map(|seconds| chunk(*seconds).unwrap())
            .collect()
    }

    async fn wait(chunk: &Chunk) -> Result<Vec<Value>, ApiError> {
        Clock.pause(chunk.seconds("takes").unwrap().unwrap()).await;
        Ok(vec![chunk.get("takes").cloned().unwrap_or_default()])
    }

    #[tokio::test(start_paused = true)]
    async fn each_chunk_has_a_deadline_of_its_own() {
        // Together they take longer than one may.
        let long = CHUNK_TIMEOUT.as_secs() - 1;
        let returned = each_in_time(&chunks(&[long, long, 1]), wait).await.unwrap();
        assert_eq!(returned, [long, long, 1].map(Value::from));

        let chunks = chunks(&[1, 2 * long, 1]);
        let begun = std::sync::atomic::AtomicUsize::new(0);
        let began = Clock.now();
        let slow = each_in_time(&chunks, |chunk| {
            begun.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            wait(chunk)
        });
        let error = slow.await.unwrap_err();
        assert_eq!((Clock.now() - began).as_secs(), CHUNK_TIMEOUT.as_secs() + 1);
        assert_eq!(begun.into_inner(), 2, "the third is not begun");
        assert_eq!(error.status(), 504);
        let line = error.to_string();
        assert!(
            line.starts_with("chunk 2 of 3 takes longer than 600 s"),
            "{line}"
        );
        assert!(
            line.ends_with("the chunks after it were not begun"),
            "{line}"
        );
    }
}
