//! The built-in application, which is served where `app` names no other one.

use axum::response::Response;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};

use super::static_files::served;

/// What its page may load: its own files, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page, by the name of its file.
const PAGE: &str = "index.html";

/// Its files.
const FILES: [(&str, &[u8]); 16] = [
    (PAGE, include_bytes!("../../console/index.html")),
    ("api.js", include_bytes!("../../console/api.js")),
    ("command.js", include_bytes!("../../console/command.js")),
    ("console.css", include_bytes!("../../console/console.css")),
    ("console.js", include_bytes!("../../console/console.js")),
    ("dom.js", include_bytes!("../../console/dom.js")),
    ("eventlist.js", include_bytes!("../../console/eventlist.js")),
    ("events.js", include_bytes!("../../console/events.js")),
    ("guard.js", include_bytes!("../../console/guard.js")),
    ("health.js", include_bytes!("../../console/health.js")),
    ("job.js", include_bytes!("../../console/job.js")),
    ("jobs.js", include_bytes!("../../console/jobs.js")),
    ("keys.js", include_bytes!("../../console/keys.js")),
    ("minions.js", include_bytes!("../../console/minions.js")),
    ("reachable.js", include_bytes!("../../console/reachable.js")),
    ("run.js", include_bytes!("../../console/run.js")),
];

/// Returns the page.
pub(super) fn page() -> Response {
    file(PAGE).unwrap_or_default()
}

/// Returns a file; none where there is none of that name.
pub(super) fn file(name: &str) -> Option<Response> {
    let (_, bytes) = FILES.iter().find(|(known, _)| *known == name)?;
    let mut response = served(name, bytes.to_vec());
    let policy = HeaderValue::from_static(POLICY);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, policy);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/console");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(file(&name).is_some(), "{name}");
        }
        assert!(file("../Cargo.toml").is_none());
    }
}
