use proptest::prelude::*;

use crate::{InnerPath, PathError};

#[test]
fn paths_that_could_lead_out_are_no_inner_paths() {
    for (text, error) in [
        ("..", PathError::Parent),
        ("a/../../b", PathError::Parent),
        ("a/..", PathError::Parent),
        ("/etc/shadow", PathError::Absolute),
        ("//etc", PathError::Absolute),
        ("a\0b", PathError::Nul),
    ] {
        assert_eq!(InnerPath::parse(text), Err(error), "{text:?}");
    }
    for long in ["a".repeat(256), "a/".repeat(2_048)] {
        assert_eq!(InnerPath::parse(&long), Err(PathError::TooLong));
    }
    for (text, path) in [
        ("", ""),
        (".", ""),
        ("a//b/./c/", "a/b/c"),
        ("...", "..."),
        ("a/..b", "a/..b"),
        ("a\\..\\b", "a\\..\\b"),
        ("%2e%2e/a", "%2e%2e/a"),
        ("\u{202e}/ä", "\u{202e}/ä"),
    ] {
        assert_eq!(InnerPath::parse(text).unwrap().as_str(), path);
    }
}

#[test]
fn paths_are_joined_and_split() {
    let path = |text| InnerPath::parse(text).unwrap();
    assert_eq!(path("a/b").join(&path("c")), Ok(path("a/b/c")));
    assert_eq!(path("").join(&path("c")), Ok(path("c")));
    assert_eq!(path("a").join(&path("")), Ok(path("a")));
    assert_eq!(path("a/b").split_name(), Some((path("a"), "b")));
    assert_eq!(path("b").split_name(), Some((path(""), "b")));
    assert_eq!(path("").split_name(), None);
}

proptest! {
    #[test]
    fn any_text_is_refused_or_stays_inside(text in "[./a\\x00\u{e4}]{0,30}") {
        if let Ok(path) = InnerPath::parse(&text) {
            let joined = std::path::Path::new("/root").join(path.as_str());
            let is_inside = joined.components().skip(2).all(|c| matches!(c, std::path::Component::Normal(_)));
            prop_assert!(joined.starts_with("/root") && is_inside);
            prop_assert_eq!(InnerPath::parse(path.as_str()), Ok(path));
        }
    }
}
