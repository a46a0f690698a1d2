//! The whole table of decisions, and the rules one by one. It is long since each rule stands beside the table that it changes.

use std::fmt::Write as _;
use std::sync::Arc;

use saline_config::{LoginWay, MasterConfig};
use saline_data::Value;
use saline_messages::{Arguments, MinionId};
use saline_targeting::{Target, TargetKind};

use super::{
    About, Action, AddressedJob, Admits, Authorizer, ExternalUser, LocalUser, Principal, Reached,
};
use crate::settings::LiveSettings;

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

fn user(name: &str, groups: &[&str]) -> Principal {
    Principal::LocalUser(Arc::new(LocalUser {
        uid: 1000,
        name: name.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }))
}

fn external(name: &str, way: LoginWay) -> Principal {
    Principal::ExternalUser(Arc::new(ExternalUser {
        name: name.to_owned(),
        way,
        groups: Vec::new(),
        through: "operator api1".to_owned(),
    }))
}

/// Reads the rules as a master does, from a file.
fn authorizer(options: &str) -> Authorizer {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("master"), options).unwrap();
    let loaded = MasterConfig::load(folder.path(), &[]).unwrap();
    Authorizer::new(LiveSettings::new(&loaded.config))
}

const RULES: &str = "
publisher_acl:
  ann:
    - test.ping
    - 'web*':
      - state.(apply|highstate)
      - pkg.install:
          args: ['vim.*', null]
          kwargs: {refresh: 'True'}
  ops%: ['*.ping', '@jobs']
  keeper: ['@wheel']
  boss: ['@all']
  nobody: []
  '*': [test.version]
publisher_acl_blacklist:
  users: [mallory, 'tmp.*']
  modules: [cmd.*]
operators:
  alice: [test.ping, {'@runner': [manage.*]}]
  chief: ['@all']
external_auth:
  auto:
    xavier: [test.ping]
    xena: ['@all']
    nobody: []
";

/// Every principal that has a place in the table.
fn principals() -> Vec<(&'static str, Principal)> {
    vec![
        ("local root", Principal::LocalRoot),
        ("master's user", Principal::MasterUser),
        ("user with rules", user("ann", &[])),
        ("user with @wheel", user("keeper", &[])),
        ("user with @all", user("boss", &[])),
        ("user without rules", user("nobody", &[])),
        ("blacklisted user", user("mallory", &["ops"])),
        ("operator with rules", Principal::Operator("alice".into())),
        ("operator with @all", Principal::Operator("chief".into())),
        ("operator not named", Principal::Operator("bob".into())),
        ("external with rules", external("xavier", LoginWay::Auto)),
        ("external with @all", external("xena", LoginWay::Auto)),
        ("external without", external("nobody", LoginWay::Auto)),
        ("external by no way", external("xena", LoginWay::File)),
        ("API", Principal::Api(id("web"))),
        ("schedule", Principal::Schedule("backup".into())),
        ("reaction", Principal::Reaction("/srv/reactor/a.sls".into())),
        ("minion", Principal::Minion(id("web1"))),
        ("caller", Principal::Caller(id("web1"))),
    ]
}

/// The minions of a target that chooses them by ids.
fn by_ids(minions: &[MinionId]) -> Reached<'_> {
    Reached::by(&Target::glob("*"), minions)
}

/// What each action is about in the table: something that is the principal's own and within its rules, if it has any.
fn about<'a>(
    action: Action,
    owner: &'a str,
    arguments: &'a saline_messages::PackedArguments,
    minions: &'a [MinionId],
) -> About<'a> {
    match action {
        Action::Publish => About::Function {
            fun: "test.ping",
            arguments,
            minions: by_ids(minions),
            job: None,
        },
        Action::BeginRun => About::Function {
            fun: "manage.up",
            arguments,
            minions: Reached::NONE,
            job: None,
        },
        Action::CallWheel => About::Function {
            fun: "config.values",
            arguments,
            minions: Reached::NONE,
            job: None,
        },
        Action::UploadFiles => About::Function {
            fun: "cp.recv",
            arguments,
            minions: Reached::NONE,
            job: None,
        },
        Action::CancelJob | Action::ReadJob => About::Owner(owner),
        Action::MatchTarget => About::Minions(by_ids(minions)),
        Action::OwnRun
        | Action::ListKeys
        | Action::ChangeKeys
        | Action::ReadLastSeen
        | Action::Ping
        | Action::ActForUsers
        | Action::ReadEvents
        | Action::RotateGroupKey
        | Action::RotateIdentity
        | Action::ActAsMinion
        | Action::ActAsCaller
        | Action::PollOwnKey => About::Nothing,
    }
}

#[test]
fn every_action_of_every_kind_of_principal_has_a_decision() {
    let authorizer = authorizer(RULES);
    let arguments = Arguments::default().pack();
    let minions = [id("web1"), id("web2")];
    let mut table = String::new();
    for (kind, principal) in principals() {
        let _ = write!(table, "{kind:20}");
        for action in Action::ALL {
            let owner = principal.owner();
            let about = about(action, &owner, &arguments, &minions);
            let decided = authorizer.authorize(&principal, action, about);
            table.push(if decided.is_ok() { 'y' } else { '.' });
        }
        table.push('\n');
    }
    // In the order of `Action::ALL`: publish, cancel, read, begin a run, call a wheel, own run; list keys, change keys, match, last
    // seen, rotate the group key and the identity, upload; ping, act for users, read events; minion, caller, poll.
    let expected = "\
local root          yyyyyyyyyyyyyyyy...
master's user       yyyyyyyyyyyyyyyy...
user with rules     yyy..y..y....yyy...
user with @wheel    .yy.yyyy.yyy.yyy...
user with @all      yyyyyyyyyyyyyyyy...
user without rules  .............yy....
blacklisted user    ...................
operator with rules yyyy.y..y....yyy...
operator with @all  yyyyyyyyyyyyyyyy...
operator not named  .............yy....
external with rules yyy..y..y....y.y...
external with @all  yyyyyyyyyyyyyy.y...
external without    .............y.....
external by no way  .............y.....
API                 .....y.......yy....
schedule            yyyy....y..........
reaction            yyyyy..yy..........
minion              ................y.y
caller              .................y.
";
    assert_eq!(table, expected, "\n{table}");
}

#[test]
fn all_events_go_to_those_who_have_everything_or_a_rule_for_them() {
    let rules = "
publisher_acl:
  reader: ['@events']
  all: ['.*']
  star: ['*']
  some: ['test.*', 'cmd.*', '@runner', '@wheel', '@jobs']
  limited: [{'.*': {args: ['a']}}, 'web*': ['.*']]
  boss: ['@all']
operators:
  amy: [test.ping, '@events']
  bob: [test.ping]
reactor_acl: [test.ping]
";
    let authorizer = authorizer(rules);
    let gets_all = |principal: &Principal| authorizer.gets_all_events(principal);
    for name in ["reader", "all", "star", "boss"] {
        assert!(gets_all(&user(name, &[])), "{name}");
    }
    for name in ["some", "limited", "unnamed"] {
        assert!(!gets_all(&user(name, &[])), "{name}");
    }
    assert!(gets_all(&Principal::LocalRoot) && gets_all(&Principal::MasterUser));
    assert!(gets_all(&Principal::Operator("amy".into())));
    assert!(!gets_all(&Principal::Operator("bob".into())));
    assert!(!gets_all(&Principal::Minion(id("web1"))));
    assert!(!gets_all(&Principal::Reaction("/srv/reactor/a.sls".into())));
    // It is a rule about events and nothing else.
    let reader = user("reader", &[]);
    assert!(!authorizer.sees_all(&reader));
    let minions = [id("web1")];
    let arguments = Arguments::default().pack();
    let about = about(Action::Publish, "", &arguments, &minions);
    assert!(
        authorizer
            .authorize(&reader, Action::Publish, about)
            .is_err()
    );
    assert!(authorizer.known_to(&reader, minions.to_vec()).is_empty());
}

#[test]
fn an_external_user_has_the_rules_of_its_way_and_groups_as_they_are_now() {
    let rules = "
sharedsecret: x
external_auth:
  file:
    ^filename: /etc/saline/users
    ann: [test.ping]
    ops%: [test.version]
    '*': [test.echo]
  sharedsecret:
    ann: [cmd.run]
publisher_acl_blacklist: {users: [mallory], modules: [pkg.*]}
";
    let run = |rules: &str, who: &Principal, fun| publish_by(rules, who, fun, &[], &[], &["web1"]);
    let ann = external("ann", LoginWay::File);
    assert_eq!(run(rules, &ann, "test.ping"), "external_auth: test.ping");
    assert_eq!(
        run(rules, &ann, "cmd.run"),
        "external user ann (file, through operator api1) may not run cmd.run: no rule of external_auth in the master's \
         configuration allows it"
    );
    let by_secret = external("ann", LoginWay::SharedSecret);
    assert_eq!(run(rules, &by_secret, "cmd.run"), "external_auth: cmd.run");
    // The rules for everybody are for who is not named, unless it is asked for.
    assert!(run(rules, &ann, "test.echo").contains("may not"));
    let permissive = format!("permissive_acl: True\n{rules}");
    assert_eq!(
        run(&permissive, &ann, "test.echo"),
        "external_auth: test.echo"
    );
    assert_eq!(
        run(rules, &external("zoe", LoginWay::File), "test.echo"),
        "external_auth: test.echo"
    );
    let mut member = ExternalUser::clone(match &ann {
        Principal::ExternalUser(user) => user,
        _ => unreachable!(),
    });
    member.name = "zoe".to_owned();
    member.groups = vec!["ops".to_owned()];
    let member = Principal::ExternalUser(Arc::new(member));
    assert_eq!(
        run(rules, &member, "test.version"),
        "external_auth: test.version"
    );
    let mallory = external("mallory", LoginWay::File);
    assert!(run(rules, &mallory, "test.echo").contains("publisher_acl_blacklist"));
    // A user whose rules were removed from the file has no rights.
    assert!(run("", &ann, "test.ping").contains("may not run test.ping"));
    // The same name by another way is another user.
    assert_ne!(ann.owner(), by_secret.owner());
    assert_eq!(
        ann.event_origin(),
        saline_messages::EventOrigin::external_user("ann")
    );
}

#[test]
fn users_of_the_machine_get_in_when_anybody_may_log_in() {
    let eve = Arc::new(LocalUser {
        uid: 1000,
        name: "eve".to_owned(),
        groups: Vec::new(),
    });
    let admits = |rules: &str| authorizer(rules).admits(&eve);
    assert!(matches!(
        admits("external_auth: {auto: {}}\n"),
        Admits::NoRule(_)
    ));
    let someone = "external_auth: {auto: {ann: [test.ping]}}\n";
    assert_eq!(admits(someone), Admits::Yes);
    let blacklisted = format!("{someone}publisher_acl_blacklist: {{users: [eve]}}\n");
    assert!(matches!(admits(&blacklisted), Admits::Blacklisted(_)));
}

#[test]
fn files_are_handed_in_by_those_who_may_run_the_function_that_fetches_them() {
    let rules = "
publisher_acl:
  ann: ['web*': [{cp.recv: {kwargs: {dest: '/srv/.*'}}}]]
  bob: [test.*, '@jobs', '@runner': ['cp.*']]
  eve: ['cp.*']
publisher_acl_blacklist: {users: [mallory], modules: [cp.recv]}
";
    let decide = |rules: &str, name: &str| {
        let about = About::Function {
            fun: "cp.recv",
            arguments: &Arguments::default().pack(),
            minions: Reached::NONE,
            job: None,
        };
        let decided = authorizer(rules).authorize(&user(name, &[]), Action::UploadFiles, about);
        decided.map_or_else(|refusal| refusal.line, |allowed| allowed.rule.into_owned())
    };
    assert!(decide(rules, "eve").contains("publisher_acl_blacklist"));
    let rules = rules.replace(", modules: [cp.recv]", "");
    assert_eq!(decide(&rules, "ann"), "publisher_acl: web*: cp.recv");
    assert_eq!(decide(&rules, "eve"), "publisher_acl: cp.*");
    assert_eq!(
        decide(&rules, "bob"),
        "local user bob may not run cp.recv: no rule of publisher_acl in the master's configuration allows it"
    );
}

#[test]
fn an_api_fires_the_events_of_its_hooks_and_begins_nothing_else() {
    let api = Principal::Api(id("web"));
    let runs = |fun: &str, positional: &[&str], named: &[(&str, &str)]| {
        let arguments = Arguments {
            positional: positional.iter().map(|text| Value::from(*text)).collect(),
            named: named
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
                .collect(),
        };
        let about = About::Function {
            fun,
            arguments: &arguments.pack(),
            minions: Reached::NONE,
            job: None,
        };
        // No rule of operators gives an API more.
        let rules = "operators: {web: ['@all'], 'API web': ['@all'], '*': ['@all']}\n";
        let decided = authorizer(rules).authorize(&api, Action::BeginRun, about);
        decided.map(|allowed| allowed.rule.into_owned())
    };
    let hook = "salt/netapi/hook/deploy/web1";
    let allowed = Ok("events of its hooks".to_owned());
    assert_eq!(runs("event.send", &[hook], &[]), allowed);
    assert_eq!(runs("event.send", &[hook, "data"], &[]), allowed);
    assert_eq!(
        runs("event.send", &[], &[("data", "x"), ("tag", hook)]),
        allowed
    );
    assert_eq!(runs("event.send", &["salt/netapi/hook"], &[]), allowed);
    for tag in [
        "salt/netapi/hook/",
        "salt/netapi/hooks/a",
        "salt/netapi/hook/../../minion/m1/start",
        "salt/netapi/hook/./a",
        "salt/netapi/hook/a/..",
        "salt/netapi/hook//a",
        "Salt/netapi/hook/a",
        "salt/minion/m1/start",
        "my/event",
        "",
    ] {
        assert!(runs("event.send", &[tag], &[]).is_err(), "{tag:?}");
        assert!(runs("event.send", &[], &[("tag", tag)]).is_err(), "{tag:?}");
    }
    assert!(runs("event.send", &[hook], &[("tag", "my/event")]).is_err());
    assert!(runs("event.send", &[], &[("tag", hook), ("tag", "my/event")]).is_err());
    assert!(runs("event.send", &[], &[]).is_err());
    for fun in [
        "event.read",
        "jobs.list_jobs",
        "manage.up",
        "salt.cmd",
        "EVENT.SEND",
    ] {
        let refusal = runs(fun, &[hook], &[]).unwrap_err();
        let told = format!("API web may not run {fun} on the master: ");
        assert!(refusal.line.starts_with(&told), "{}", refusal.line);
    }
    assert!(!authorizer("").sees_all(&api));
    assert_eq!(authorizer("").known_to(&api, vec![id("web1")]), []);
}

#[test]
fn whoever_is_logged_in_fires_the_events_of_hooks_and_no_others() {
    let rules = "external_auth: {auto: {ann: [test.ping]}}\npublisher_acl: {ann: [test.ping]}\n";
    let sends = |principal: &Principal, tag: &str| {
        let arguments = Arguments {
            positional: vec![Value::from(tag)],
            named: Vec::new(),
        };
        let about = About::Function {
            fun: "event.send",
            arguments: &arguments.pack(),
            minions: Reached::NONE,
            job: None,
        };
        let decided = authorizer(rules).authorize(principal, Action::BeginRun, about);
        decided.map(|allowed| allowed.rule.into_owned()).ok()
    };
    let hook = "salt/netapi/hook/deploy/web1";
    let (ann, bob) = (
        external("ann", LoginWay::Auto),
        external("bob", LoginWay::Auto),
    );
    let allowed = Some("external_auth: events of hooks".to_owned());
    assert_eq!(sends(&ann, hook), allowed);
    assert_eq!(sends(&ann, "my/event"), None);
    assert_eq!(sends(&bob, hook), None, "without a rule there is no login");
    assert_eq!(sends(&user("ann", &[]), hook), None);
}

#[test]
fn every_action_stands_in_the_list_once() {
    let all: std::collections::BTreeSet<Action> = Action::ALL.into_iter().collect();
    assert_eq!(all.len(), Action::ALL.len());
}

#[test]
fn who_is_not_in_operators_may_do_everything_until_it_is_set() {
    let bob = Principal::Operator("bob".into());
    let unset = authorizer("");
    assert!(unset.sees_all(&bob));
    let keys = |authorizer: &Authorizer| {
        let decided = authorizer.authorize(&bob, Action::ChangeKeys, About::Nothing);
        decided.map(|allowed| allowed.rule.into_owned())
    };
    assert_eq!(keys(&unset), Ok("operators is not set".to_owned()));
    let set = authorizer("operators: {}\n");
    assert!(!set.sees_all(&bob));
    assert!(keys(&set).is_err());
    assert!(keys(&authorizer("operators: {'*': ['@all']}\n")).is_ok());
}

#[test]
fn choosing_by_pillar_takes_all_rights() {
    let bob = Principal::Operator("bob".into());
    let decide = |rules: &str, expression: &str| {
        let target = Target {
            kind: TargetKind::Compound,
            expression: expression.to_owned(),
        };
        let about = About::Minions(Reached::by(&target, &[]));
        let decided = authorizer(rules).authorize(&bob, Action::MatchTarget, about);
        decided.map_or_else(|refusal| refusal.line, |allowed| allowed.rule.into_owned())
    };
    let some = "operators: {bob: [test.ping, {'*': ['.*']}]}\n";
    for expression in ["I@password:a*", "web* and not J@password:a"] {
        assert_eq!(
            decide(some, expression),
            "operator bob may not choose minions by pillar: whoever does finds out the values, so that takes @all; nodegroups \
             of the master's configuration may have such terms for others"
        );
        assert_eq!(
            decide("operators: {bob: ['@all']}\n", expression),
            "operators: @all"
        );
    }
    assert_eq!(decide(some, "N@web"), "operators: minions of its rules");
}

#[test]
fn a_reaction_may_do_everything_until_reactor_acl_is_set() {
    let reaction = Principal::Reaction("/srv/reactor/a.sls".into());
    let run = |rules: &str, fun: &str| publish_by(rules, &reaction, fun, &[], &[], &["web1"]);
    assert_eq!(run("", "cmd.run"), "reactor_acl is not set");
    let rules = "reactor_acl: [test.ping, {'web*': [service.reload]}]\n";
    assert_eq!(run(rules, "test.ping"), "reactor_acl: test.ping");
    assert_eq!(
        run(rules, "cmd.run"),
        "reaction /srv/reactor/a.sls may not run cmd.run: no rule of reactor_acl in the master's configuration allows it"
    );
    let keys = |rules| {
        let decided = authorizer(rules);
        decided
            .authorize(&reaction, Action::CallWheel, About::Nothing)
            .is_ok()
    };
    assert!(keys("") && keys("reactor_acl: ['@wheel']\n"));
    assert!(!keys(rules) && !keys("reactor_acl: []\n"));
}

#[test]
fn a_job_of_somebody_else_is_neither_read_nor_cancelled() {
    let authorizer = authorizer(RULES);
    let ann = user("ann", &[]);
    for action in [Action::ReadJob, Action::CancelJob] {
        for owner in [
            "root",
            "ann",
            "local user keeper",
            "saline-call on web1",
            "",
        ] {
            let decided = authorizer.authorize(&ann, action, About::Owner(owner));
            assert!(decided.is_err(), "{action} {owner}");
        }
        let own = authorizer.authorize(&ann, action, About::Owner("local user ann"));
        assert!(own.is_ok());
        let boss = authorizer.authorize(&user("boss", &[]), action, About::Owner("root"));
        assert!(boss.is_ok());
    }
}

/// Returns the rule that decided, or the line of the refusal.
fn publish(
    who: &Principal,
    fun: &str,
    positional: &[&str],
    named: &[(&str, Value)],
    minions: &[&str],
) -> String {
    publish_by(RULES, who, fun, positional, named, minions)
}

fn publish_by(
    rules: &str,
    who: &Principal,
    fun: &str,
    positional: &[&str],
    named: &[(&str, Value)],
    minions: &[&str],
) -> String {
    let arguments = Arguments {
        positional: positional.iter().map(|text| Value::from(*text)).collect(),
        named: named
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    };
    let minions: Vec<MinionId> = minions.iter().map(|text| id(text)).collect();
    let about = About::Function {
        fun,
        arguments: &arguments.pack(),
        minions: by_ids(&minions),
        job: None,
    };
    match authorizer(rules).authorize(who, Action::Publish, about) {
        Ok(allowed) => allowed.rule.into_owned(),
        Err(refusal) => refusal.line,
    }
}

#[test]
fn rules_are_judged_on_each_minion() {
    let ann = user("ann", &[]);
    let none = "no rule of publisher_acl in the master's configuration allows it";
    for (fun, minions, decision) in [
        (
            "test.ping",
            &["db1", "web1"][..],
            "publisher_acl: test.ping".to_owned(),
        ),
        ("test.ping", &[], "publisher_acl: test.ping".to_owned()),
        (
            "state.apply",
            &["web1", "web2"],
            "publisher_acl: web*: state.(apply|highstate), pkg.install".to_owned(),
        ),
        (
            "state.apply",
            &["db1", "web1"],
            format!("local user ann may not run state.apply on db1: {none}"),
        ),
        (
            "state.apply",
            &["a", "b", "c", "d", "e", "web1"],
            format!("local user ann may not run state.apply on a, b, c and 2 more: {none}"),
        ),
        (
            "state.applyx",
            &["web1"],
            format!("local user ann may not run state.applyx: {none}"),
        ),
        (
            "test.pings",
            &["web1"],
            format!("local user ann may not run test.pings: {none}"),
        ),
        (
            "test.ping,cmd.run",
            &["web1"],
            "local user ann may not run test.ping,cmd.run: its arguments cannot be read".to_owned(),
        ),
        // Those for everybody are for who is not named.
        (
            "test.version",
            &["web1"],
            format!("local user ann may not run test.version: {none}"),
        ),
    ] {
        assert_eq!(publish(&ann, fun, &[], &[], minions), decision);
    }
    let eve = user("eve", &[]);
    assert_eq!(
        publish(&eve, "test.version", &[], &[], &["db1"]),
        "publisher_acl: test.version"
    );
    let ops = user("eve", &["staff", "ops"]);
    assert_eq!(
        publish(&ops, "test.ping", &[], &[], &["db1"]),
        "publisher_acl: *.ping"
    );
    assert!(publish(&ops, "test.version", &[], &[], &["db1"]).contains("may not run"));
}

#[test]
fn minions_of_a_rule_are_a_glob_or_a_regular_expression_over_whole_ids() {
    let ann = user("ann", &[]);
    for (ids, minion, allowed) in [
        ("(web|db)\\d+", "web1", true),
        ("(web|db)\\d+", "web1x", false),
        ("web1|db1", "db1", true),
        ("web1|db1", "xdb1", false),
        (".*", "web1", true),
        ("w?b*", "web1", true),
        // The contrary as a regular expression.
        ("web[!1]", "web1", false),
        ("web[!1]", "web2", true),
        ("web.", "webs", false),
    ] {
        let rules = format!("publisher_acl: {{ann: [{{'{ids}': [test.ping]}}]}}");
        let decided = publish_by(&rules, &ann, "test.ping", &[], &[], &[minion]);
        let is_allowed = decided.starts_with("publisher_acl");
        assert_eq!(is_allowed, allowed, "{ids} {minion}: {decided}");
    }
}

#[test]
fn arguments_are_matched_whole_and_have_to_be_there() {
    let refresh = [("refresh", Value::Bool(true))];
    let install = |positional: &[&str], named: &[(&str, Value)]| {
        let ann = user("ann", &[]);
        publish(&ann, "pkg.install", positional, named, &["web1"]).starts_with("publisher_acl: ")
    };
    assert!(install(&["vim-tiny", "anything"], &refresh));
    assert!(!install(&["vim-tiny"], &refresh), "the second is left out");
    assert!(!install(&["emacs", "x"], &refresh));
    assert!(
        !install(&["neovim", "x"], &refresh),
        "not from the beginning"
    );
    assert!(!install(&["vim", "x"], &[]));
    assert!(!install(
        &["vim", "x"],
        &[("refresh", Value::from("Truely"))]
    ));
}

#[test]
fn a_rule_with_a_pattern_for_an_argument_allows_no_secret_there() {
    let rules = "publisher_acl:\n  ann:\n    - user.add:\n        kwargs: {password: '.*'}\n    - user.del\n";
    let mut secret = Arguments::default();
    let place = saline_messages::ArgumentPlace::named("password");
    let values = vec![(place, Value::from("x"))];
    saline_messages::Secrets::set_apart(&mut secret, values).unwrap();
    let decision = |fun: &str, value: Value| {
        let ann = user("ann", &[]);
        let named = [("password", value)];
        publish_by(rules, &ann, fun, &[], &named, &["web1"]).starts_with("publisher_acl: ")
    };
    let marker = secret.named[0].1.clone();
    assert!(decision("user.add", Value::from("x")));
    assert!(!decision("user.add", marker.clone()));
    assert!(decision("user.del", marker.clone()));
    let rules = "publisher_acl:\n  ann:\n    - user.add:\n        args: ['.*']\n";
    let by_position = |value: Value| {
        let arguments = Arguments {
            positional: vec![value],
            named: Vec::new(),
        };
        let minions = [id("web1")];
        let about = About::Function {
            fun: "user.add",
            arguments: &arguments.pack(),
            minions: by_ids(&minions),
            job: None,
        };
        let decided = authorizer(rules).authorize(&user("ann", &[]), Action::Publish, about);
        decided.is_ok()
    };
    assert!(by_position(Value::from("x")));
    assert!(!by_position(marker));
}

#[test]
fn a_refusal_names_minions_only_where_the_target_has_their_ids() {
    let authorizer = authorizer("publisher_acl:\n  ann:\n    - 'web*':\n      - test.ping\n");
    let ann = user("ann", &[]);
    let (minions, arguments) = ([id("db1"), id("web1")], Arguments::default().pack());
    let refused = |kind: TargetKind, expression: &str, minions: &[MinionId]| {
        let target = Target {
            kind,
            expression: expression.to_owned(),
        };
        let reached = Reached::by(&target, minions);
        let job = About::Function {
            fun: "test.ping",
            arguments: &arguments,
            minions: reached,
            job: None,
        };
        let lines = [
            authorizer.authorize(&ann, Action::Publish, job),
            authorizer.authorize(&ann, Action::MatchTarget, About::Minions(reached)),
        ];
        lines.map(|decided| decided.map_or_else(|refusal| refusal.line, |_| "allowed".to_owned()))
    };
    let because = "no rule of publisher_acl in the master's configuration allows it";
    for (kind, expression) in [
        (TargetKind::Glob, "*"),
        (TargetKind::List, "db1,web1"),
        (TargetKind::Pcre, ".*1"),
    ] {
        let expected = [
            format!("local user ann may not run test.ping on db1: {because}"),
            format!("local user ann may not match a target with db1: {because}"),
        ];
        assert_eq!(refused(kind, expression, &minions), expected);
    }
    let some = "minions that the target reaches outside of its rules";
    for (kind, expression) in [
        (TargetKind::Grain, "os:Debian"),
        (TargetKind::Compound, "* and G@os:Debian"),
        (TargetKind::IpCidr, "192.0.2.0/24"),
        (TargetKind::Nodegroup, "group"),
        (TargetKind::Assigned, "roles:db"),
    ] {
        let expected = [
            format!("local user ann may not run test.ping on {some}: {because}"),
            format!("local user ann may not match a target with {some}: {because}"),
        ];
        assert_eq!(refused(kind, expression, &minions), expected);
        assert_eq!(refused(kind, expression, &minions[1..]), ["allowed"; 2]);
    }
}

#[test]
fn the_blacklist_goes_before_the_rules_and_not_before_root() {
    let decision = |who: &Principal, fun: &str| publish(who, fun, &[], &[], &["web1"]);
    assert_eq!(
        decision(&user("boss", &[]), "cmd.run"),
        "local user boss may not run cmd.run: publisher_acl_blacklist of the master's configuration names \"cmd.*\" in modules"
    );
    assert!(decision(&user("tmpfs", &["ops"]), "test.ping").contains("publisher_acl_blacklist"));
    assert_eq!(decision(&Principal::LocalRoot, "cmd.run"), "local root");
    let admits = |name: &str| {
        let Principal::LocalUser(user) = user(name, &["staff"]) else {
            unreachable!("it is a user")
        };
        let (rules, _) = RULES.split_once("external_auth").unwrap();
        authorizer(&rules.replace("  '*': [test.version]\n", "")).admits(&user)
    };
    assert!(matches!(admits("mallory"), Admits::Blacklisted(_)));
    assert!(matches!(admits("eve"), Admits::NoRule(_)));
    assert_eq!(admits("ann"), Admits::Yes);
}

#[test]
fn a_pattern_that_takes_too_many_steps_allows_nothing_and_refuses_in_the_blacklist() {
    let slow = "'(?:a|aa)+(?!b)c'";
    let fun = "a".repeat(200);
    let about = |arguments| About::Function {
        fun: &fun,
        arguments,
        minions: Reached::NONE,
        job: None,
    };
    let arguments = Arguments::default().pack();
    let ann = user("ann", &[]);
    let allowing = authorizer(&format!("publisher_acl: {{ann: [{slow}]}}\n"));
    assert!(
        allowing
            .authorize(&ann, Action::Publish, about(&arguments))
            .is_err()
    );
    let refusing = authorizer(&format!(
        "publisher_acl: {{ann: ['@all']}}\npublisher_acl_blacklist: {{modules: [{slow}]}}\n"
    ));
    assert!(
        refusing
            .authorize(&ann, Action::Publish, about(&arguments))
            .is_err()
    );
}

#[test]
fn each_function_of_a_job_of_several_is_decided_by_itself() {
    let rules = "
publisher_acl:
  ann:
    - test.*
    - 'web*': [{pkg.install: {args: ['vim.*']}}]
    - 'web1': [saltutil.*]
publisher_acl_blacklist: {modules: [test.exception]}
";
    let call = |fun: &str, argument: &str| {
        let positional = vec![Value::from(argument)];
        let arguments = Arguments {
            positional,
            named: Vec::new(),
        };
        (fun.to_owned(), arguments)
    };
    let decide = |calls: &[(String, Arguments)], on: &str| {
        let (fun, arguments) = saline_messages::compound(calls);
        let minions = [id(on)];
        let about = About::Function {
            fun: &fun,
            arguments: &arguments.pack(),
            minions: by_ids(&minions),
            job: None,
        };
        let decided = authorizer(rules).authorize(&user("ann", &[]), Action::Publish, about);
        decided.map_or_else(|refusal| refusal.line, |allowed| allowed.rule.into_owned())
    };
    let (echo, vim) = (call("test.echo", "a"), call("pkg.install", "vim-tiny"));
    assert_eq!(
        decide(&[echo.clone(), vim.clone()], "web1"),
        "publisher_acl: test.* and publisher_acl: web*: pkg.install"
    );
    // A pattern over the names of both would match: test.* is not about what follows a comma.
    let refused = decide(&[echo.clone(), call("cmd.run", "id")], "web1");
    assert!(
        refused.starts_with("local user ann may not run cmd.run: no rule"),
        "{refused}"
    );
    let refused = decide(&[echo.clone(), call("pkg.install", "nano")], "web1");
    assert!(
        refused.starts_with("local user ann may not run pkg.install: no rule"),
        "{refused}"
    );
    let refused = decide(&[vim, echo.clone()], "db1");
    assert!(
        refused.starts_with("local user ann may not run pkg.install on db1"),
        "{refused}"
    );
    let refused = decide(&[echo.clone(), call("test.exception", "x")], "web1");
    assert!(refused.contains("publisher_acl_blacklist"), "{refused}");
    let refused = decide(
        &[echo, call("saltutil.find_job", "20261121100000000000")],
        "web1",
    );
    assert!(
        refused.contains("but with the id of a job of its own"),
        "{refused}"
    );
}

#[test]
fn a_function_that_reaches_jobs_reaches_its_own_alone() {
    let rules = "
publisher_acl:
  ann: [test.ping]
  bob: ['saltutil.*']
  boss: ['@all']
publisher_acl_blacklist: {modules: [saltutil.kill_job]}
";
    let decide = |name: &str, fun: &str, owner: Option<&str>, on: &[&str]| {
        let job = owner.map(|owner| AddressedJob {
            owner: owner.to_owned(),
            minions: vec![id("web1"), id("web2")],
        });
        let minions: Vec<MinionId> = on.iter().map(|text| id(text)).collect();
        let about = About::Function {
            fun,
            arguments: &Arguments::default().pack(),
            minions: by_ids(&minions),
            job: job.as_ref(),
        };
        let decided = authorizer(rules).authorize(&user(name, &[]), Action::Publish, about);
        decided.map_or_else(|refusal| refusal.line, |allowed| allowed.rule.into_owned())
    };
    let (ann, bob) = (Some("local user ann"), Some("local user bob"));
    let term = "saltutil.term_job";
    assert_eq!(
        decide("ann", term, ann, &["web2"]),
        "publisher_acl: its own jobs"
    );
    assert!(decide("ann", term, ann, &["db1", "web1"]).contains("may not run"));
    assert!(decide("ann", "saltutil.find_job", ann, &["web1"]).contains("no rule of"));
    assert_eq!(
        decide("bob", "saltutil.find_job", bob, &["web1"]),
        "publisher_acl: saltutil.*"
    );
    let blacklisted = decide("ann", "saltutil.kill_job", ann, &["web1"]);
    assert!(
        blacklisted.contains("publisher_acl_blacklist"),
        "{blacklisted}"
    );
    // One of root, and one that is not named or not known.
    for owner in [Some("root"), None] {
        for fun in [term, "saltutil.signal_job", "saltutil.find_job"] {
            assert_eq!(
                decide("bob", fun, owner, &["web1"]),
                format!(
                    "local user bob may not run {fun} but with the id of a job of its own (saline-run jobs.list_jobs shows those)"
                )
            );
        }
        assert_eq!(
            decide("boss", term, owner, &["web1"]),
            "publisher_acl: @all"
        );
    }
    assert!(decide("bob", "saltutil.running", None, &["web1"]).contains("that takes @all"));
    assert_eq!(
        decide("boss", "saltutil.running", None, &["web1"]),
        "publisher_acl: @all"
    );
}

#[test]
fn a_call_names_its_job_by_position_or_by_name_and_once() {
    let jid = "20261121091409931549";
    let named = |positional: &[Value], named: &[(&str, Value)]| {
        let arguments = Arguments {
            positional: positional.to_vec(),
            named: named
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        };
        AddressedJob::jid("saltutil.signal_job", &arguments.pack()).map(|jid| jid.to_string())
    };
    let text = || Value::from(jid);
    let own = Some(jid.to_owned());
    assert_eq!(named(&[text(), Value::from("HUP")], &[]), own);
    assert_eq!(
        named(&[], &[("sig", Value::from("HUP")), ("jid", text())]),
        own
    );
    // What a minion makes of two is its own affair.
    assert_eq!(named(&[text()], &[("jid", text())]), None);
    assert_eq!(named(&[], &[("jid", text()), ("jid", text())]), None);
    assert_eq!(named(&[Value::texts([jid].into_iter())], &[]), None);
    assert_eq!(named(&[], &[]), None);
}

#[test]
fn runners_about_own_jobs_take_no_rule() {
    let authorizer = authorizer(RULES);
    let arguments = Arguments::default().pack();
    let decide = |who: &Principal, fun: &str| {
        let about = About::Function {
            fun,
            arguments: &arguments,
            minions: Reached::NONE,
            job: None,
        };
        authorizer.authorize(who, Action::BeginRun, about).is_ok()
    };
    let alice = Principal::Operator("alice".into());
    for fun in [
        "jobs.cancel",
        "jobs.lookup_jid",
        "jobs.active",
        "batch.stop",
    ] {
        assert!(decide(&user("ann", &[]), fun), "{fun}");
        assert!(decide(&alice, fun), "{fun}");
        assert!(!decide(&user("nobody", &[]), fun), "{fun}");
        assert!(!decide(&user("mallory", &[]), fun), "{fun}");
    }
    assert!(!decide(&user("ann", &[]), "cache.clear_all"));
    assert!(!decide(&user("ann", &[]), "jobs.unknown"));
}
