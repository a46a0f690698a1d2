//! What the client accepts, by `Accept`: a form of answers, a stream of events, or a page.

use axum::extract::FromRequestParts;
use hyper::HeaderMap;
use hyper::header::ACCEPT;
use hyper::http::request::Parts;

use crate::error::ApiError;
use crate::format::{Format, YAML_TYPES};

/// The largest number of entries in `Accept` that are looked at.
const MAX_ENTRIES: usize = 32;

impl Format {
    /// Returns the form that the client wants most; JSON where it wants several equally, or has no wish.
    ///
    /// # Errors
    /// `NotAcceptable` when it accepts neither.
    pub(crate) fn accepted(headers: &HeaderMap) -> Result<Self, ApiError> {
        let entries = accepted(headers);
        if entries.is_empty() {
            return Ok(Self::Json);
        }
        let json = quality(&entries, "application/json");
        let yaml = YAML_TYPES.map(|kind| (quality(&entries, kind), kind));
        // Of several that are wanted equally, the first.
        let wanted = yaml.into_iter().rev().max_by_key(|(quality, _)| *quality);
        let (yaml, kind) = wanted.unwrap_or_default();
        match (json, yaml) {
            (0, 0) => Err(ApiError::NotAcceptable(
                "application/json or application/x-yaml",
            )),
            (json, yaml) if yaml > json => Ok(Self::Yaml(kind)),
            _ => Ok(Self::Json),
        }
    }
}

/// The form of the answer, which is settled before a request is carried out.
impl<S: Sync> FromRequestParts<S> for Format {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Self::accepted(&parts.headers)
    }
}

/// Whether the client takes a stream of events. Clients that were written for Salt's, which sends one whatever `Accept` says, ask for
/// it as for any answer: libpepper with `application/json`.
///
/// # Errors
/// `NotAcceptable`
pub(crate) fn check_takes_events(headers: &HeaderMap) -> Result<(), ApiError> {
    let entries = accepted(headers);
    let kinds = ["text/event-stream", "application/json"];
    match entries.is_empty() || kinds.iter().any(|kind| quality(&entries, kind) > 0) {
        true => Ok(()),
        false => Err(ApiError::NotAcceptable("text/event-stream")),
    }
}

/// Whether a browser asks, which wants a page: `text/html` is wanted more than anything that is an answer of the API.
pub(crate) fn prefers_page(headers: &HeaderMap) -> bool {
    let entries = accepted(headers);
    let page = named(&entries, "text/html").unwrap_or(0);
    let answers = YAML_TYPES.iter().chain(&["application/json"]);
    let answers = answers.filter_map(|kind| named(&entries, kind));
    page > 0 && answers.max().unwrap_or(0) < page
}

/// Returns the entries of `Accept` with their qualities in thousandths.
fn accepted(headers: &HeaderMap) -> Vec<(String, u32)> {
    let lines = headers.get_all(ACCEPT).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let entries = lines.flat_map(|line| line.split(','));
    entries
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .take(MAX_ENTRIES)
        .map(|entry| {
            let mut parts = entry.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            let quality = quality.and_then(|quality| quality.parse::<f64>().ok());
            let quality = quality.unwrap_or(1.0).clamp(0.0, 1.0);
            (kind, (quality * 1000.0) as u32)
        })
        .collect()
}

/// Returns the quality of a kind that is named itself.
fn named(entries: &[(String, u32)], kind: &str) -> Option<u32> {
    let found = entries.iter().find(|(named, _)| named == kind);
    found.map(|(_, quality)| *quality)
}

/// Returns the quality of a kind by the entry that says most about it.
fn quality(entries: &[(String, u32)], kind: &str) -> u32 {
    let group = kind.split('/').next().unwrap_or_default();
    named(entries, kind)
        .or_else(|| named(entries, &format!("{group}/*")))
        .or_else(|| named(entries, "*/*"))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    /// YAML as Salt sends it.
    const YAML: Format = Format::Yaml("application/x-yaml");

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
        headers
    }

    #[test]
    fn the_client_chooses_the_form() {
        for (accept, format) in [
            ("application/json", Some(Format::Json)),
            ("application/x-yaml", Some(YAML)),
            ("application/yaml", Some(Format::Yaml("application/yaml"))),
            (
                "text/yaml;q=0.9, */*;q=0.1",
                Some(Format::Yaml("text/yaml")),
            ),
            ("text/*", Some(Format::Yaml("text/yaml"))),
            ("*/*", Some(Format::Json)),
            ("application/*;q=0.5, application/json;q=0.1", Some(YAML)),
            ("application/x-yaml;q=0.5, */*;q=0.9", Some(Format::Json)),
            ("text/html", None),
            ("application/json;q=0", None),
            ("image/png, text/plain", None),
        ] {
            assert_eq!(Format::accepted(&headers(accept)).ok(), format, "{accept}");
        }
        assert_eq!(Format::accepted(&HeaderMap::new()).ok(), Some(Format::Json));
    }

    #[test]
    fn events_are_for_clients_that_take_them() {
        for accept in [
            "text/event-stream",
            "text/*",
            "*/*",
            "application/json",
            "text/html, text/event-stream;q=0.1",
        ] {
            assert!(check_takes_events(&headers(accept)).is_ok(), "{accept}");
        }
        assert!(check_takes_events(&HeaderMap::new()).is_ok());
        for accept in [
            "text/html",
            "application/x-yaml",
            "text/event-stream;q=0",
            "*/*;q=0",
        ] {
            let refused = check_takes_events(&headers(accept)).unwrap_err();
            assert_eq!(refused.status(), 406, "{accept}");
            assert!(refused.to_string().contains("text/event-stream"));
        }
    }

    #[test]
    fn a_browser_gets_a_page_and_a_program_does_not() {
        let firefox = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        assert!(prefers_page(&headers(firefox)));
        for accept in [
            "*/*",
            "application/json",
            "application/json, text/html;q=0.9",
        ] {
            assert!(!prefers_page(&headers(accept)), "{accept}");
        }
        assert!(!prefers_page(&HeaderMap::new()));
    }
}
