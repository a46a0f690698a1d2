//! The paths of the application and of its files.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use saline_config::RestCherrypyConfig;
use saline_jailed_files::Root;

/// The path of the built-in page, with its files below it.
const BUILT_IN: &str = "/app";

/// The most steps up that a browser is sent at once; from a path that is deeper it takes several turns.
const MAX_DEPTH: usize = 64;

/// The application and its files.
#[derive(Debug, Default)]
pub(crate) struct StaticFiles {
    pub(crate) app: Option<PathBuf>,
    app_path: String,
    pub(crate) root: Option<Arc<Root>>,
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
    pub(crate) fn static_path(&self) -> Option<&str> {
        self.root.as_ref().map(|_| self.static_path.as_str())
    }

    /// Whether a path is that of a file.
    pub(crate) fn is_static(&self, path: &str) -> bool {
        let below = path.strip_prefix(&self.static_path);
        self.root.is_some() && below.is_some_and(|below| below.starts_with('/'))
    }

    /// Returns the name of a file of the built-in application; none for other paths, and where another one is served.
    pub(crate) fn built_in<'a>(&self, path: &'a str) -> Option<&'a str> {
        let below = path.strip_prefix(BUILT_IN)?.strip_prefix('/');
        below.filter(|_| self.app.is_none())
    }

    /// Whether a path is that of the application, also with a slash behind it.
    pub(crate) fn is_app(&self, path: &str) -> bool {
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
    pub(crate) fn page_redirect(&self, path: &str) -> Option<String> {
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
}

/// Returns a path with one slash before it and none behind it.
fn path(text: &str) -> String {
    format!("/{}", text.trim_matches('/'))
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
