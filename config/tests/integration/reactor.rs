//! The option `reactor`.

use saline_config::{MasterConfig, ReactionFile};

use crate::folder::{SCHEMES, folder, master_error};

#[test]
fn mistakes_are_told_with_their_place() {
    for (text, error) in [
        (
            "reactor: {'a': [/srv/a.sls]}\n",
            r#"DIR/master:1:10: option "reactor" takes a list of mappings, each of one tag to a list of files, not a mapping"#,
        ),
        (
            "reactor:\n  - 'a': [/srv/a.sls]\n    'b': [/srv/b.sls]\n",
            r#"DIR/master:3:5: option "reactor" takes mappings of one tag each: begin each tag with `- `"#,
        ),
        (
            "reactor:\n  - 'a': [a.sls]\n",
            r#"DIR/master:2:11: option "reactor" names the file "a.sls", which is neither an absolute path nor `salt://PATH`"#,
        ),
        (
            "reactor:\n  - 'a': ['salt://../a.sls']\n",
            r#"DIR/master:2:11: option "reactor" names the file "salt://../a.sls", which is not a path below file_roots"#,
        ),
        (
            "reactor:\n  - 'a': ['/srv/*/a.sls']\n",
            r#"DIR/master:2:11: option "reactor" names the file "/srv/*/a.sls", which has a glob in the name of a folder: only the last part of a path may be one"#,
        ),
        (
            "reactor_worker_threads: 0\n",
            r#"DIR/master:1:25: option "reactor_worker_threads" takes a number from 1 to 256, not 0"#,
        ),
        (
            "reactor_acl: test.ping\n",
            r#"DIR/master:1:14: option "reactor_acl" takes a list of rules, not the text "test.ping""#,
        ),
        (
            "reactor_acl: {'*': [test.ping]}\n",
            r#"DIR/master:1:14: option "reactor_acl" takes a list of rules, not a mapping"#,
        ),
        (
            "reacter: []\n",
            r#"DIR/master:1:1: unknown option "reacter"; did you mean "reactor"?"#,
        ),
    ] {
        assert_eq!(master_error(&[("master", text)]), error);
    }
}

#[test]
fn reactions_keep_their_order_and_files_are_paths_or_served() {
    let dir = folder(&[(
        "master",
        "reactor:\n- 'salt/*/start':\n  - /srv/reactor/*.sls\n  - salt://reactor/start.sls\n- 'salt/auth': /srv/auth.sls\nreactor_acl: ['@wheel', 'web*': [test.ping]]\n",
    )]);
    let loaded = MasterConfig::load(dir.path(), SCHEMES).unwrap();
    let reactor = loaded.config.reactor;
    assert!(reactor.reactions[0].glob.matches("salt/minion/web1/start"));
    assert_eq!(
        reactor.reactions[0].files,
        [
            ReactionFile::Path("/srv/reactor/*.sls".into()),
            ReactionFile::Served("reactor/start.sls".to_owned())
        ]
    );
    assert!(reactor.reactions[1].glob.matches("salt/auth"));
    assert_eq!(reactor.acl.unwrap().len(), 2);
    assert_eq!((reactor.workers, reactor.most_events), (10, 10_000));
}
