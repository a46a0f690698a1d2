//! `/static`: the files of the application.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use saline_config::RestCherrypyConfig;
use saline_jailed_files::{InnerPath, Root};
use saline_protocol::transport::Context;

use super::console;
use crate::api::Api;
use crate::error::ApiError;

/// The largest file that is served, in bytes.
const MAX_FILE: usize = 16 * 1024 * 1024;

/// The kinds of files that applications are made of, by the ends of their names.
const KINDS: [(&str, &str); 14] = [
    ("css", "text/css; charset=utf-8"),
    ("gif", "image/gif"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/x-icon"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("md", "text/plain; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
];

/// The path of the built-in page, with its files below it.
const BUILT_IN: &str = "/app";

/// The most steps up that a browser is sent at once; from a path that is deeper it takes several turns.
const MAX_DEPTH: usize = 64;

/// The application and its files.
#[derive(Debug, Default)]
pub(crate) struct StaticFiles {
    app: Option<PathBuf>,
    app_path: String,
    root: Option<Arc<Root>>,
    static_path: String,
}

impl StaticFiles {
    /// Opens the folder of the application's files.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn open(settings: &RestCherrypyConfig) -> io::Result<Self> {
        let folder = settings.static_folder.as_deref();
        Ok(Self {
            app: settings.app.clone(),
            app_path: path(&settings.app_path),
            root: folder.map(Root::open).transpose()?.map(Arc::new),
            static_path: path(&settings.static_path),
        })
    }

    /// Returns the path that files are below, if there are any.
    pub(super) fn static_path(&self) -> Option<&str> {
        self.root.as_ref().map(|_| self.static_path.as_str())
    }

    /// Whether a path is that of a file.
    pub(super) fn is_static(&self, path: &str) -> bool {
        let below = path.strip_prefix(&self.static_path);
        self.root.is_some() && below.is_some_and(|below| below.starts_with('/'))
    }

    /// Returns the name of a file of the built-in application; none for other paths, and where another one is served.
    pub(super) fn built_in<'a>(&self, path: &'a str) -> Option<&'a str> {
        let below = path.strip_prefix(BUILT_IN)?.strip_prefix('/');
        below.filter(|_| self.app.is_none())
    }

    /// Whether a path is that of the application, also with a slash behind it.
    pub(super) fn is_app(&self, path: &str) -> bool {
        let path = path.strip_suffix('/').unwrap_or(path);
        path == self.app_path || path == self.page_path()
    }

    /// Returns the path at which the names of files in the page are right.
    fn page_path(&self) -> &str {
        match self.app {
            Some(_) => &self.app_path,
            None => BUILT_IN,
        }
    }

    /// Returns where a browser is sent that asks for a page by this path; none where it gets the page itself. As a path from there,
    /// since a proxy may serve the API below a path of its own.
    pub(super) fn page_redirect(&self, path: &str) -> Option<String> {
        let below = |path: &str| path.matches('/').count().saturating_sub(1);
        // Names of files in the page are relative: below the root they are right at the path of the page alone.
        let is_at_root = below(path) == 0 && below(self.page_path()) == 0;
        if is_at_root || path == self.page_path() {
            return None;
        }
        let below = below(path);
        let page = self.page_path().trim_start_matches('/');
        let up = "../".repeat(below.min(MAX_DEPTH));
        Some(format!("{up}{page}"))
    }

    /// Returns the page of the application; the built-in one where no other is named.
    ///
    /// # Errors
    /// `NotFound` when it cannot be read.
    pub(super) async fn app(&self, context: &Context) -> Result<Response, ApiError> {
        let Some(app) = self.app.clone() else {
            return Ok(console::page());
        };
        let read = context.spawn_blocking(move || std::fs::read(app)).await;
        match read {
            Ok(Ok(page)) => Ok(served("index.html", page)),
            Ok(Err(error)) => {
                tracing::warn!("the file of the option app cannot be read: {error}");
                Err(absent())
            }
            Err(_) => Err(absent()),
        }
    }
}

/// Returns a path with one slash before it and none behind it.
fn path(text: &str) -> String {
    format!("/{}", text.trim_matches('/'))
}

/// Serves a file.
pub(super) async fn file(
    State(api): State<Arc<Api>>,
    Path(file): Path<String>,
) -> Result<Response, ApiError> {
    let root = api.files.root.clone().ok_or_else(absent)?;
    let inner = InnerPath::parse(&file).map_err(|_| absent())?;
    let read = move || root.read(&inner, MAX_FILE);
    match api.context.spawn_blocking(read).await {
        Ok(Ok(bytes)) => Ok(served(&file, bytes)),
        Ok(Err(error)) => {
            tracing::debug!("a static file is not served: {error}");
            Err(absent())
        }
        Err(_) => Err(absent()),
    }
}

pub(super) fn served(name: &str, bytes: Vec<u8>) -> Response {
    let extension = FilePath::new(name).extension();
    let extension = extension.and_then(|extension| extension.to_str());
    let kind = KINDS.iter().find(|(known, _)| Some(*known) == extension);
    let kind = kind.map_or("application/octet-stream", |(_, kind)| kind);
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn absent() -> ApiError {
    ApiError::NotFound("there is no such file".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_sent_to_where_the_names_in_the_page_are_right() {
        let mut settings = RestCherrypyConfig::on_port(0);
        let files = StaticFiles::open(&settings).unwrap();
        for (path, elsewhere) in [
            ("/", None),
            ("/app", None),
            ("/minions", None),
            ("/app/", Some("../app")),
            ("/jobs/20261121091409931549", Some("../app")),
            ("/jobs/1/2/", Some("../../../app")),
            ("//evil.example", Some("../app")),
        ] {
            assert_eq!(files.page_redirect(path).as_deref(), elsewhere, "{path}");
        }
        assert!(files.is_app("/app") && files.is_app("/app/"));
        settings.app_path = "/ui/salt".to_owned();
        let built_in = StaticFiles::open(&settings).unwrap();
        assert_eq!(
            built_in.page_redirect("/ui/salt").as_deref(),
            Some("../app")
        );
        assert!(built_in.is_app("/ui/salt") && built_in.is_app("/app"));
        settings.app = Some(PathBuf::from("index.html"));
        let other = StaticFiles::open(&settings).unwrap();
        assert_eq!(other.page_redirect("/ui/salt"), None);
        assert_eq!(
            other.page_redirect("/ui/salt/").as_deref(),
            Some("../../ui/salt")
        );
        assert!(!other.is_app("/app"));
    }
}
