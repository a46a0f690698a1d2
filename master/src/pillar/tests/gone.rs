//! Folders and top files that go.

use super::*;

/// Checks that a minion keeps a pillar because of an error.
#[track_caller]
fn kept(found: (Option<Value>, Vec<String>), last: &str, error: &str) {
    let last = yaml::parse(last).unwrap();
    assert_eq!(found, (Some(last), vec![error.to_owned()]));
}

#[tokio::test]
async fn a_top_file_that_goes_takes_no_pillar_away() {
    let scene = Scene::new(|_| {}).await;
    scene.expect("web1", "{}").await;
    scene.write("top.sls", "base: {'*': [a]}\n");
    scene.write("a.sls", "a: 1\n");
    scene.expect("web1", "{a: 1}").await;
    let folder = scene.path("");
    let gone = format!(
        "the top.sls of the environment base has gone from {}: put it back, or an empty one if nothing is to come from there any \
         more",
        folder.display().to_string().trim_end_matches('/')
    );
    std::fs::remove_file(scene.path("top.sls")).unwrap();
    kept(scene.pillar("web1").await, "{a: 1}", &gone);
    std::fs::remove_dir_all(&folder).unwrap();
    kept(scene.pillar("web1").await, "{a: 1}", &gone);
    let all = scene
        .pillars
        .check_all(saline_pillar::Check::IsThere, None, Vec::new());
    assert_eq!(all.await.unwrap(), [gone]);
    scene.write("top.sls", "");
    scene.expect("web1", "{}").await;
}

#[tokio::test]
async fn files_without_a_top_file_are_for_nobody_by_a_mistake() {
    let scene = Scene::new(|_| {}).await;
    std::fs::create_dir_all(scene.path("")).unwrap();
    scene.write("README", "");
    scene.expect("web1", "{}").await;
    scene.write("web/init.sls", "a: 1\n");
    let (entries, errors) = scene.pillar("web1").await;
    assert_eq!(entries, Some(Value::Map(Vec::new())));
    assert!(
        errors[0].starts_with("there is no top.sls in "),
        "{errors:?}"
    );
    scene.write("top.sls", "base: {web1: [web]}\n");
    scene.expect("web1", "{a: 1}").await;
}

#[tokio::test]
async fn a_folder_that_the_configuration_names_has_to_be_there() {
    let scene = Scene::new(|config| {
        let root = config.paths.root_dir.join("srv/pillar");
        let roots = ["base", "dev"].map(|name| (name.to_owned(), vec![root.join(name)]));
        config.pillar.roots = Some(roots.into());
    })
    .await;
    let absent = |name: &str| {
        format!(
            "the folder {} of pillar_roots is not there: mount or make it, or take it out of pillar_roots",
            scene.path(name).display()
        )
    };
    let both = (None, vec![absent("base"), absent("dev")]);
    assert_eq!(scene.pillar("web1").await, both);
    for name in ["base", "dev"] {
        std::fs::create_dir_all(scene.path(name)).unwrap();
    }
    let (entries, errors) = scene.pillar("web1").await;
    assert_eq!(entries, None);
    assert!(
        errors[0].starts_with("there is no top.sls in "),
        "{errors:?}"
    );
    scene.write("dev/top.sls", "base: {'*': [a]}\n");
    scene.write("base/a.sls", "a: 1\n");
    scene.expect("web1", "{a: 1}").await;
    std::fs::rename(scene.path("dev"), scene.path("moved")).unwrap();
    kept(scene.pillar("web1").await, "{a: 1}", &absent("dev"));
    std::fs::rename(scene.path("moved"), scene.path("dev")).unwrap();
    scene.write("base/a.sls", "a: 2\n");
    scene.expect("web1", "{a: 2}").await;
}

#[tokio::test]
async fn files_that_a_glob_names_are_seen_at_once() {
    let scene = Scene::new(|_| {}).await;
    scene.write("top.sls", "base: {'*': ['app.*']}\n");
    scene.write("app/a.sls", "a: {{ tplpath }}\n");
    let a = scene.path("app/a.sls").display().to_string();
    scene.expect("web1", &format!("{{a: {a}}}")).await;
    scene.write("app/b.sls", "b: 1\n");
    scene.expect("web1", &format!("{{a: {a}, b: 1}}")).await;
    std::fs::remove_file(scene.path("app/a.sls")).unwrap();
    scene.expect("web1", "{b: 1}").await;
}
