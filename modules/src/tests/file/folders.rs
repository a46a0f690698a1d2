use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const YES: Value = Value::Bool(true);

#[test]
fn folders_are_created_with_those_above() {
    let files = Files::new();
    let path = files.path("a/b/c");
    let told = files.done("mkdir", &path, &[], &[TEST]);
    assert!(is_changed(&told) && files.names().is_empty());
    files.done("mkdir", &path, &[], &[("mode", "0750".into())]);
    assert_eq!(
        path.metadata().unwrap().permissions().mode() & 0o7777,
        0o750
    );
    assert!(!is_changed(&files.done("mkdir", &path, &[], &[])));
    files.done("makedirs", &files.path("d/file"), &[], &[]);
    assert!(files.path("d").is_dir() && !files.path("d/file").exists());
    files.done("makedirs", &files.path("e/f/"), &[], &[]);
    assert!(files.path("e/f").is_dir());
    files.file("plain", "");
    let refused = files.refused("mkdir", &files.path("plain/x"), &[], &[]);
    assert!(refused.contains("FOLDER/plain"), "{refused}");
}

#[test]
fn a_link_is_created_replaced_by_force_and_read() {
    let files = Files::new();
    let link = files.path("current");
    let make = |target: &str, named: &[(&str, Value)]| {
        let link = Value::from(link.to_str().unwrap());
        files
            .bench
            .call("file.symlink", &[Value::from(target), link], named)
    };
    assert!(is_changed(&make("releases/1", &[TEST]).value) && !link.is_symlink());
    assert!(is_changed(&make("releases/1", &[]).value));
    assert!(!is_changed(&make("releases/1", &[]).value));
    assert!(text(&make("releases/2", &[])).contains("force=True"));
    let answer = make("releases/2", &[("force", YES)]).value;
    assert_eq!(answer.get("old"), Some(&"releases/1".into()));
    assert_eq!(files.done("readlink", &link, &[], &[]), "releases/2".into());
    assert_eq!(files.done("is_link", &link, &[], &[]), YES);
    assert_eq!(files.names(), ["current"]);
    std::fs::remove_file(&link).unwrap();
    std::fs::create_dir(&link).unwrap();
    assert!(text(&make("x", &[("force", YES)])).contains("a folder"));
}

#[test]
fn a_file_is_copied_with_its_mode_and_renamed() {
    let files = Files::new();
    let from = files.file("from", "one\n");
    std::fs::set_permissions(&from, PermissionsExt::from_mode(0o600)).unwrap();
    let to = files.path("to");
    let to_text = to.to_str().unwrap().to_owned();
    assert!(is_changed(&files.done("copy", &from, &[&to_text], &[TEST])) && !to.exists());
    let answer = files.done("copy", &from, &[&to_text], &[]);
    assert!(files.diff(&answer).ends_with("+one\n"));
    assert_eq!(to.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
    assert!(!is_changed(&files.done("copy", &from, &[&to_text], &[])));
    files.file("from", "two\n");
    let answer = files.done("copy", &from, &[&to_text], &[("backup", YES)]);
    assert_eq!(
        read(Path::new(answer.get("backup").unwrap().as_str().unwrap())),
        "one\n"
    );
    assert_eq!(read(&to), "two\n");
    files.done("rename", &from, &[&to_text], &[TEST]);
    assert!(from.exists());
    let answer = files.done("rename", &from, &[&to_text], &[]);
    assert_eq!(answer.get("replaced"), Some(&YES));
    assert_eq!(files.names(), ["to"]);
    std::fs::create_dir(files.path("folder")).unwrap();
    let folder = files.path("folder");
    let refused = files.refused("rename", &to, &[folder.to_str().unwrap()], &[]);
    assert!(refused.contains("is a folder"), "{refused}");
}

#[test]
fn a_folder_is_copied_with_its_links_and_not_into_itself() {
    let files = Files::new();
    std::fs::create_dir_all(files.path("tree/sub")).unwrap();
    std::fs::set_permissions(files.path("tree/sub"), PermissionsExt::from_mode(0o711)).unwrap();
    files.file("tree/sub/file", "x");
    symlink("sub/file", files.path("tree/link")).unwrap();
    let tree = files.path("tree");
    let copy = files.path("copy");
    let copy_text = copy.to_str().unwrap();
    let plain = files.refused("copy", &tree, &[copy_text], &[]);
    assert!(plain.contains("recurse=True"), "{plain}");
    let recurse = ("recurse", YES);
    files.done("copy", &tree, &[copy_text], std::slice::from_ref(&recurse));
    assert_eq!(read(&copy.join("sub/file")), "x");
    assert_eq!(
        std::fs::read_link(copy.join("link")).unwrap(),
        Path::new("sub/file")
    );
    let mode = copy.join("sub").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o711);
    files.file("copy/extra", "");
    files.done("copy", &tree, &[copy_text], std::slice::from_ref(&recurse));
    assert!(copy.join("extra").exists());
    files.done(
        "copy",
        &tree,
        &[copy_text],
        &[recurse.clone(), ("remove_existing", YES)],
    );
    assert!(!copy.join("extra").exists());
    let inside = tree.join("inside");
    let refused = files.refused("copy", &tree, &[inside.to_str().unwrap()], &[recurse]);
    assert!(refused.contains("in the folder itself"), "{refused}");
}

#[test]
fn a_folder_is_removed_but_not_what_a_link_in_it_leads_to() {
    let files = Files::new();
    std::fs::create_dir_all(files.path("tree/sub")).unwrap();
    let kept = files.file("kept", "x");
    symlink(&kept, files.path("tree/link")).unwrap();
    let tree = files.path("tree");
    assert!(is_changed(&files.done("remove", &tree, &[], &[TEST])) && tree.exists());
    files.done("remove", &tree, &[], &[]);
    assert_eq!(files.names(), ["kept"]);
    assert!(!is_changed(&files.done("remove", &tree, &[], &[])));
    // Always as a test: a mistake must not cost the machine.
    for vital in ["/", "/etc", "/etc/", "/usr/../usr/lib", "//", "/proc"] {
        let refused = files.refused("remove", Path::new(vital), &[], &[TEST]);
        assert!(refused.contains("does not work without it"), "{refused}");
    }
    let cache = files.bench.folder.path().to_owned();
    let refused = files.refused("remove", &cache, &[], &[TEST]);
    assert!(refused.contains("cachedir"), "{refused}");
}
