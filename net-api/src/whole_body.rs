//! The body of a request, which is read as a whole within its bounds.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use saline_client::transport::Clock;

use crate::api::Api;
use crate::error::ApiError;
use crate::limits::BODY_TIMEOUT;

/// The body of a request, as a whole.
#[derive(Debug)]
pub(crate) struct WholeBody(pub(crate) Bytes);

impl FromRequest<Arc<Api>> for WholeBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Arc<Api>) -> Result<Self, ApiError> {
        let body = read(request.into_body(), api.max_body);
        match Clock.deadline(Clock.after(BODY_TIMEOUT), body).await {
            Ok(body) => body.map(Self),
            Err(_) => Err(ApiError::RequestTimeout),
        }
    }
}

/// Reads a body of at most so many bytes.
async fn read(mut body: Body, most: usize) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::TooLarge(format!("a body has at most {most} bytes"));
    // Its length may stand in the head: then the client hears it before it sends all of it.
    if body.size_hint().lower() > most as u64 {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| ApiError::BadRequest(format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if whole.len() + data.len() > most {
            return Err(too_large());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
