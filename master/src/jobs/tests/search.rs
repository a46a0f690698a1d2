//! Searches for jobs and runs, and what is stored of runs.

use std::slice::from_ref;

use super::*;

use crate::jobs::{FoundJobs, JobSearch, StoredRun, StoredRunEnd};
use saline_messages::RunKind;
use saline_targeting::Glob;

const MASTER: &str = "here_master";

fn all(most: usize) -> JobSearch {
    JobSearch::all(most, MASTER.to_owned())
}

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts
        .iter()
        .map(|text| Glob::compile(text).unwrap())
        .collect()
}

/// Publishes a job with a function, a target and perhaps a ticket in its metadata.
async fn publish_noted(store: &JobStore, fun: &str, target: &str, ticket: Option<i64>) -> Jid {
    let mut job = job(store);
    job.fun = fun.to_owned();
    job.target = Target::glob(target);
    let metadata = ticket.map(|ticket| Value::map([("ticket", Value::Int(ticket))]));
    let published = NewJob {
        metadata: metadata.map(|metadata| Packed::pack(&metadata)),
        ..new(&job, &[])
    };
    assert_eq!(store.publish(published).await.unwrap(), CarriedOut::Now);
    job.jid
}

async fn store_run(store: &JobStore, fun: &str) -> StoredRun {
    let run = StoredRun {
        jid: store.next_jid(),
        kind: RunKind::Runner,
        fun: fun.to_owned(),
        arg: Arguments::default().pack(),
        user: "ann".to_owned(),
        operator: "root".to_owned(),
        end: None,
    };
    store.store_run(run.clone()).await.unwrap();
    run
}

fn jids(found: &FoundJobs) -> Vec<Jid> {
    found.jobs.iter().map(|job| job.jid.clone()).collect()
}

#[tokio::test]
async fn every_filter_leaves_out_what_it_does_not_match() {
    let place = Place::new();
    let store = place.open();
    let ping = publish_noted(&store, "test.ping", "*", Some(1)).await;
    let run = store_run(&store, "manage.up").await;
    let echo = publish_noted(&store, "test.echo", "web*", None).await;
    let install = publish_noted(&store, "pkg.install", "db1", Some(2)).await;
    let find = async |search: JobSearch| jids(&store.search(search).await.unwrap());

    let (ping, echo, install, run) = (&ping, &echo, &install, &run.jid);
    let newest_first = [install, echo, run, ping].map(Clone::clone);
    assert_eq!(find(all(9)).await, newest_first);
    for (functions, targets, expected) in [
        (&["test.*"][..], &[][..], &[echo, ping][..]),
        (&["*.up", "pkg.*"], &[], &[install, run]),
        (&["manage.up"], &[], &[]),
        (&[], &["web*", "db?"], &[install, echo]),
        (&[], &[MASTER], &[run]),
        (&["test.*"], &["db*"], &[]),
    ] {
        let search = JobSearch {
            functions: globs(functions),
            targets: globs(targets),
            ..all(9)
        };
        let expected: Vec<Jid> = expected.iter().map(|jid| (*jid).clone()).collect();
        assert_eq!(find(search).await, expected, "{functions:?} {targets:?}");
    }
    let noted = |entries: &[(&str, Value)]| JobSearch {
        metadata: entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect(),
        ..all(9)
    };
    let ticket = |number| ("ticket", Value::Int(number));
    assert_eq!(find(noted(&[ticket(2)])).await, from_ref(install));
    assert_eq!(
        find(noted(&[ticket(1), ("team", Value::Null)])).await,
        from_ref(ping)
    );
    assert_eq!(find(noted(&[ticket(3)])).await, Vec::<Jid>::new());
    assert_eq!(
        find(noted(&[("ticket", "1".into())])).await,
        Vec::<Jid>::new()
    );

    let time = |jid: &Jid| crate::jid::to_micros(jid).unwrap();
    let between = |from: &Jid, until: &Jid| JobSearch {
        from: time(from),
        until: time(until),
        ..all(9)
    };
    for (from, until, expected) in [
        (run, echo, &[echo, run][..]),
        (echo, install, &[install, echo]),
        (ping, ping, &[ping]),
    ] {
        let expected: Vec<Jid> = expected.iter().map(|jid| (*jid).clone()).collect();
        assert_eq!(find(between(from, until)).await, expected);
    }
    let found = store.search(all(9)).await.unwrap();
    let noted: Vec<bool> = found
        .jobs
        .iter()
        .map(|job| job.metadata.is_some())
        .collect();
    assert_eq!(noted, [true, false, false, true]);
    assert!(!found.is_cut);
}

#[tokio::test]
async fn the_newest_are_found_and_the_rest_is_told() {
    let place = Place::new();
    let store = place.open();
    let mut newest = Vec::new();
    for number in 0..10 {
        newest.insert(
            0,
            match number % 3 {
                0 => store_run(&store, "manage.up").await.jid,
                _ => publish_noted(&store, "test.ping", "*", None).await,
            },
        );
    }
    for most in 0..12 {
        let found = store.search(all(most)).await.unwrap();
        let expected = &newest[..most.min(10)];
        assert_eq!(jids(&found), expected, "{most}");
        assert_eq!(found.is_cut, most < 10, "{most}");
        let last = found.jobs.last().map(|job| &job.jid);
        let left_out = store.count_before(all(most), last).await.unwrap();
        let expected = if most == 0 { 10 } else { 10 - most.min(10) };
        assert_eq!(left_out, expected, "{most}");
    }
}

#[tokio::test]
async fn a_search_goes_through_all_files() {
    let mut place = Place::new();
    place.settings.max_bytes = Some(24 << 20);
    let store = place.open();
    let (mut even, mut ends) = (Vec::new(), Vec::new());
    for number in 0..130 {
        let fun = if number % 2 == 0 {
            "test.even"
        } else {
            "test.odd"
        };
        let mut job = job(&store);
        job.fun = fun.to_owned();
        publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
        let large = Value::Bytes(vec![1; 64 << 10]);
        let verdict = answer(&store, "a", &job.jid, &large).await;
        assert_eq!(verdict.unwrap(), ReturnVerdict::Stored);
        if number % 2 == 0 {
            even.insert(0, job.jid.clone());
        }
        if number == 10 || number == 120 {
            ends.push(crate::jid::to_micros(&job.jid).unwrap());
        }
    }
    assert!(place.files().len() > 2);
    let search = JobSearch {
        functions: globs(&["*.even"]),
        ..all(1_000)
    };
    assert_eq!(jids(&store.search(search.clone()).await.unwrap()), even);
    let between = JobSearch {
        from: ends[0],
        until: ends[1],
        ..search
    };
    let found = store.search(between).await.unwrap();
    assert_eq!(jids(&found), even[4..=59]);
}

#[tokio::test]
async fn a_search_that_found_as_many_as_it_may_is_cut_only_when_older_ones_match_too() {
    let mut place = Place::new();
    place.settings.max_bytes = Some(24 << 20);
    let store = place.open();
    store_run(&store, "manage.up").await;
    publish_noted(&store, "test.first", "*", None).await;
    for _ in 0..60 {
        let job = job(&store);
        publish(&store, &job, &[("a", MinionJobState::Offered)]).await;
        let large = Value::Bytes(vec![1; 64 << 10]);
        answer(&store, "a", &job.jid, &large).await.unwrap();
    }
    assert!(place.files().len() > 1);
    let last = publish_noted(&store, "test.last", "*", None).await;
    // When there is no room for a job any more, no run before it is found.
    let mut large = job(&store);
    large.fun = "test.large".to_owned();
    large.target = Target::glob("w".repeat(33 << 20));
    publish(&store, &large, &[]).await;
    let search = JobSearch {
        functions: globs(&["test.large", "test.first", "*.up"]),
        ..all(9)
    };
    let found = store.search(search).await.unwrap();
    assert_eq!((jids(&found), found.is_cut), (vec![large.jid], true));
    for (functions, is_cut) in [(&["test.last"][..], false), (&["test.last", "*.up"], true)] {
        let search = JobSearch {
            functions: globs(functions),
            ..all(1)
        };
        let found = store.search(search).await.unwrap();
        assert_eq!((jids(&found), found.is_cut), (vec![last.clone()], is_cut));
    }
}

#[tokio::test]
async fn a_run_is_stored_and_jids_rise_above_it() {
    let place = Place::new();
    let store = place.open();
    let run = store_run(&store, "manage.up").await;
    assert_eq!(store.run(&run.jid).await.unwrap().as_ref(), Some(&run));
    assert_eq!(store.job(&run.jid).await.unwrap(), None);
    let end = StoredRunEnd {
        success: false,
        payload: Packed::pack(&Value::from("why")),
    };
    store.end_run(&run.jid, end.clone()).await.unwrap();
    let ended = StoredRun {
        end: Some(end),
        ..run.clone()
    };
    // Beginning it again changes nothing.
    store.store_run(run.clone()).await.unwrap();
    store.close().await;
    drop(store);
    let store = place.open();
    assert_eq!(store.run(&run.jid).await.unwrap(), Some(ended));
    assert!(store.next_jid() > run.jid);
    assert_eq!(store.run(&store.next_jid()).await.unwrap(), None);
    assert_eq!(store.metadata(&run.jid).await.unwrap(), None);
}

#[tokio::test]
async fn calls_are_found_when_they_are_asked_for_and_large_arguments_hide_no_job() {
    let place = Place::new();
    let store = place.open();
    let ping = publish_noted(&store, "test.ping", "*", None).await;
    let mut large = job(&store);
    large.arg = Arguments {
        positional: vec!["x".repeat(33 * 1024 * 1024).into()],
        named: Vec::new(),
    }
    .pack();
    assert_eq!(
        store.publish(new(&large, &[])).await.unwrap(),
        CarriedOut::Now
    );
    let called = job(&store);
    let call = NewJob {
        operator: "saline-call on m1".to_owned(),
        ..new(&called, &[])
    };
    assert_eq!(store.publish(call).await.unwrap(), CarriedOut::Now);
    let find = async |search: JobSearch| store.search(search).await.unwrap();

    let ordered = find(all(9)).await;
    assert_eq!(jids(&ordered), [large.jid.clone(), ping.clone()]);
    assert!(!ordered.is_cut);
    let arguments = ordered.jobs[0].arg.unpack().unwrap().positional;
    assert_eq!(
        arguments,
        ["(34603014 bytes of arguments, which jobs.list_job shows)".into()]
    );
    let with_calls = JobSearch {
        includes_calls: true,
        ..all(9)
    };
    assert_eq!(jids(&find(with_calls).await), [called.jid, large.jid, ping]);
}
