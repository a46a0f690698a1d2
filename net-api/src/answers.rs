//! Answers with content, in either form.

use axum::body::Body;
use axum::response::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use saline_client::data::Value;

use crate::answer_body::AnswerBody;
use crate::content::Content;
use crate::format::Format;

impl Format {
    /// Returns the answer with this content, which becomes text while it is sent.
    pub(crate) fn answer(self, content: impl Into<Content>) -> Response {
        let body = Body::new(AnswerBody::new(self, content.into()));
        let kind = match self {
            Self::Json => "application/json",
            Self::Yaml(kind) => kind,
        };
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        // What minions say is never sniffed into a page, and no proxy keeps it.
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// Returns the answer `{"return": […]}` with these values.
    pub(crate) fn returned(self, returned: Vec<Value>) -> Response {
        self.answer(Value::map([("return", Value::List(returned))]))
    }
}
