use super::Jail;
use crate::{EntryKind, InnerPath, Listing, ListingLimits, TooLarge};

const WIDE_LIMITS: ListingLimits = ListingLimits {
    entries: 1_000,
    bytes: 100_000,
};

fn shown(listing: &Listing) -> Vec<String> {
    let entries = listing.after(None).map(|entry| {
        let kind = match entry.kind {
            EntryKind::File => "",
            EntryKind::Folder => "/",
            EntryKind::EmptyFolder => "/ (empty)",
        };
        let link = if entry.is_link { " (link)" } else { "" };
        format!("{}{kind}{link}", entry.path)
    });
    entries.collect()
}

#[test]
fn files_folders_and_links_are_listed_in_order() {
    let jail = Jail::new();
    for folder in ["empty", "folder-x", "folder/deep"] {
        std::fs::create_dir(jail.path(folder)).unwrap();
    }
    std::fs::write(jail.path("folder/deep/file"), "").unwrap();
    jail.link("file", "link");
    jail.link("folder", "linked");
    jail.link("../secret", "out");
    jail.link("..", "folder/deep/back");
    jail.link("absent", "dangling");
    let listing = jail
        .root
        .list(&InnerPath::root(), WIDE_LIMITS, |_| true)
        .unwrap()
        .unwrap();
    let expected = [
        "empty/ (empty)",
        "file",
        "folder/",
        "folder/deep/",
        "folder/deep/back/ (link)",
        "folder/deep/file",
        "folder/inner",
        "folder-x/ (empty)",
        "link (link)",
        "linked/ (link)",
        "linked/deep/",
        "linked/deep/back/ (link)",
        "linked/deep/file",
        "linked/inner",
    ];
    let mut found = shown(&listing);
    found.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    let mut sorted = expected.map(str::to_owned).to_vec();
    sorted.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    // A folder that leads back is listed and not entered.
    assert_eq!(
        found
            .iter()
            .map(|path| path.replace(" (empty)", ""))
            .collect::<Vec<_>>(),
        sorted
            .iter()
            .map(|path| path.replace(" (empty)", ""))
            .collect::<Vec<_>>()
    );
    for (at, entry) in listing.after(None).enumerate() {
        let behind: Vec<&str> = listing.after(Some(entry.path)).map(|e| e.path).collect();
        assert_eq!(
            behind.len(),
            listing.len() - at - 1,
            "behind {}",
            entry.path
        );
    }
    let below = InnerPath::parse("folder/deep").unwrap();
    let listing = jail
        .root
        .list(&below, WIDE_LIMITS, |path| !path.ends_with("back"))
        .unwrap()
        .unwrap();
    assert_eq!(shown(&listing), ["folder/deep/file"]);
}

#[test]
fn a_tree_that_is_too_large_is_given_up() {
    let jail = Jail::new();
    let few = ListingLimits {
        entries: 2,
        ..WIDE_LIMITS
    };
    let listed = jail.root.list(&InnerPath::root(), few, |_| true).unwrap();
    assert_eq!(listed.unwrap_err(), TooLarge(2));
    let short = ListingLimits {
        bytes: 5,
        ..WIDE_LIMITS
    };
    let listed = jail.root.list(&InnerPath::root(), short, |_| true).unwrap();
    assert_eq!(listed.unwrap_err(), TooLarge(1));
}

#[test]
fn what_nests_too_deep_is_left_out() {
    let jail = Jail::new();
    std::fs::create_dir_all(jail.path(&"d/".repeat(100))).unwrap();
    let listing = jail
        .root
        .list(&InnerPath::root(), WIDE_LIMITS, |_| true)
        .unwrap()
        .unwrap();
    assert_eq!(listing.skipped, 1);
    let deepest = listing
        .after(None)
        .map(|entry| entry.path.split('/').count())
        .max();
    assert_eq!(deepest, Some(64));
}
