//! The part of a path that its route leaves open.

use std::sync::Arc;

use axum::extract::{FromRequestParts, OptionalFromRequestParts, Path};
use hyper::http::request::Parts;

use crate::api::Api;
use crate::error::ApiError;

/// The part of a path that its route leaves open, as text.
pub(super) struct PathPart(pub(super) String);

impl FromRequestParts<Arc<Api>> for PathPart {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let part = <Path<String> as FromRequestParts<_>>::from_request_parts(parts, api).await;
        let Path(part) = part.map_err(|_| no_text())?;
        Ok(Self(part))
    }
}

impl OptionalFromRequestParts<Arc<Api>> for PathPart {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        api: &Arc<Api>,
    ) -> Result<Option<Self>, ApiError> {
        let part =
            <Path<String> as OptionalFromRequestParts<_>>::from_request_parts(parts, api).await;
        let part = part.map_err(|_| no_text())?;
        Ok(part.map(|Path(part)| Self(part)))
    }
}

fn no_text() -> ApiError {
    ApiError::BadRequest("the path is not UTF-8".to_owned())
}
