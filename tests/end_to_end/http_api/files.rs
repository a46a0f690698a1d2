//! The application and its files.

use std::os::unix::fs::symlink;

use saline_testing::Fleet;

use super::http::{Api, options, write};

#[test]
fn browsers_get_the_application_and_nothing_beside_its_folder() {
    let mut fleet = Fleet::new("tcp", "");
    let app = write(&fleet, "gui/index.html", "<html>the app</html>");
    write(&fleet, "gui/static/a.js", "let a;");
    write(&fleet, "secret.txt", "secret");
    symlink(fleet.path("secret.txt"), fleet.path("gui/static/link.txt")).unwrap();
    let (app, files) = (app.display(), fleet.path("gui/static"));
    fleet.master_options += &options(&format!("  app: {app}\n  static: {}\n", files.display()));
    fleet.start_master();
    let api = Api::start(&fleet);

    let page = ["-H", "Accept: text/html,application/xhtml+xml,*/*;q=0.8"];
    for path in ["/", "/app", "/minions", "/whatever"] {
        let answer = api.ask(path, &page);
        assert_eq!(
            (answer.status, &*answer.body),
            (200, "<html>the app</html>"),
            "{path}"
        );
        assert!(
            answer.head.contains("content-type: text/html"),
            "{answer:?}"
        );
    }
    // Where the names of files in the page would be wrong, a browser is sent to where they are right.
    for (path, elsewhere) in [
        ("/app/", "../app"),
        ("/jobs/20261121091409931549", "../app"),
    ] {
        let answer = api.ask(path, &page);
        assert_eq!(answer.status, 302, "{path}: {answer:?}");
        let location = format!("location: {elsewhere}\r\n");
        assert!(answer.head.contains(&location), "{answer:?}");
        let followed = api.ask(path, &[&page[..], &["-L"]].concat());
        assert!(followed.body.ends_with("<html>the app</html>"), "{path}");
    }
    assert_eq!(api.ask("/app", &[]).body, "<html>the app</html>");
    let answer = api.ask("/", &["-H", "Accept: application/json"]);
    assert_eq!(answer.expect(200)["return"], "Welcome");

    let script = api.ask("/static/a.js", &page);
    assert_eq!((script.status, &*script.body), (200, "let a;"));
    assert!(
        script.head.contains("content-type: text/javascript"),
        "{script:?}"
    );
    for (path, length) in [("/app", 20), ("/static/a.js", 6)] {
        let head = api.ask(path, &["-I"]);
        assert_eq!((head.status, &*head.body), (200, ""), "{head:?}");
        let length = format!("content-length: {length}\r\n");
        assert!(head.head.contains(&length), "{head:?}");
    }
    for path in [
        "/static/minions.txt",
        "/static/link.txt",
        "/static/../../secret.txt",
        "/static/..%2f..%2fsecret.txt",
        "/static/%2e%2e/%2e%2e/secret.txt",
    ] {
        let answer = api.ask(path, &["--path-as-is", "-H", "Accept: text/plain"]);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
    }
    let missing = api.ask("/static/motd.html", &page);
    assert_eq!(missing.status, 404, "{missing:?}");
}
