//! The books about an attached `saline`: which minions it names, with which word and exit code, and when it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Book, Ledger, minion_number, seconds};
use crate::contents::Content;
use crate::plan::{JobAct, PublishMode, TIMEOUT};
use crate::publisher::Publication;
use crate::states::State;
use crate::timeline::Who;

/// How much later a command may end on a busy machine.
const COMMAND_DELAY: Duration = Duration::from_secs(8);

/// How many heartbeats a batch may wait for minions that let their turn pass.
const TURNS: u32 = 6;

/// Checks that every minion is named exactly once, with a word that the faults explain.
pub(super) fn everyone_is_named(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "named",
        "`saline` names each minion of its job once, with a word that has a cause, and its exit code says so",
    );
    for (publication, ended) in attached(ledger) {
        let jid = ledger.jid(publication.job.token);
        let bound = ledger.evidence.return_bound;
        let since = publication.began.saturating_sub(bound);
        let history = &ledger.evidence.history;
        let master_left_alone = history.left_alone(&[Who::Master], since, ended);
        let told = format!(
            "exit code {}, errors: {:?}",
            publication
                .exit
                .map_or("none".to_owned(), |code| code.to_string()),
            publication.errors
        );
        book.checked += 1;
        if publication.jid.is_none() {
            let expected = ledger.expected(publication);
            let is_unknown =
                |minion: &String| ledger.key_was_deleted(minion, publication.began, ended);
            if master_left_alone && !expected.iter().all(is_unknown) {
                book.find(&jid, "", format!("no job was published; {told}"));
            }
            continue;
        }
        // A `saline` that breaks off says why, and lists the minions that it waited for in one line without words.
        let lists_the_rest = publication.errors.contains("no return was received from");
        let broke_off = !master_left_alone && (publication.absent.is_empty() || lists_the_rest);
        let mut named: BTreeMap<&str, Vec<Word<'_>>> = BTreeMap::new();
        for printed in &publication.returns {
            let words = named.entry(&printed.minion).or_default();
            words.push(Word::Return(&printed.content));
        }
        for (minion, word) in &publication.absent {
            named.entry(minion).or_default().push(Word::Absent(word));
        }
        for minion in ledger.expected(publication) {
            book.checked += 1;
            let words = named.remove(minion.as_str()).unwrap_or_default();
            let unknown = ledger.key_was_deleted(&minion, publication.began, ended);
            match words.as_slice() {
                [] if broke_off || unknown => {}
                [] => book.find(&jid, &minion, format!("it is not named; {told}")),
                [Word::Return(_)] => {}
                [Word::Absent(word)] => {
                    if let Some(why) = against_word(ledger, publication, &minion, word, ended) {
                        book.find(
                            &jid,
                            &minion,
                            format!("[{word}] until {}: {why}", seconds(ended)),
                        );
                    }
                }
                words => {
                    let evidence = format!("it is named {} times: {words:?}", words.len());
                    book.find(&jid, &minion, evidence);
                }
            }
        }
        for minion in named.keys() {
            book.find(&jid, minion, "it is named, and the job was not for it");
        }
        let expected = expected_exit(publication);
        if publication.exit != Some(expected) && !broke_off {
            book.find(&jid, "", format!("not the exit code {expected}; {told}"));
        }
    }
    book
}

/// Checks that `saline` ends with the last answer, or `-t` after the last time at which an answer could come.
pub(super) fn ends_with_the_last_answer(ledger: &Ledger<'_>) -> Book {
    let mut book = Book::new(
        "waited",
        "`saline` ends with the last answer, or -t after the last time at which one could have come",
    );
    for (publication, ended) in attached(ledger) {
        let Some(last) = last_answer(ledger, publication, ended) else {
            continue;
        };
        book.checked += 1;
        let turns = publication.job.batch.map_or(0, |_| TURNS);
        let allowed = last + TIMEOUT + ledger.evidence.heartbeat * turns + COMMAND_DELAY;
        if ended > allowed {
            let evidence = format!(
                "published at {}, the last answer could come until {}, and it ended at {}",
                seconds(publication.began),
                seconds(last),
                seconds(ended)
            );
            book.find(ledger.jid(publication.job.token), "", evidence);
        }
    }
    book
}

/// What `saline` prints about a minion.
#[derive(Debug)]
enum Word<'p> {
    Return(#[allow(dead_code, reason = "a finding shows it")] &'p Content),
    Absent(#[allow(dead_code, reason = "a finding shows it")] &'p str),
}

/// Returns the publications whose `saline` waited for the returns, and when each `saline` ended.
fn attached<'l>(ledger: &'l Ledger<'_>) -> impl Iterator<Item = (&'l Publication, Duration)> {
    let attached = ledger.evidence.publications.iter();
    let attached = attached.filter(|published| published.job.mode == PublishMode::Attached);
    attached.filter_map(|published| Some((published, published.ended?)))
}

/// Returns the exit code for what was printed.
fn expected_exit(publication: &Publication) -> i32 {
    let fails = |minion: &str| {
        let on = publication.job.fails_on;
        on.is_some() && on == minion_number(minion)
    };
    let mut returns = publication.returns.iter();
    let failed = returns.any(|printed| match &printed.content {
        Content::Whole(output) => fails(&output.instance),
        Content::Interrupted | Content::Other(_) => true,
    });
    // A queued job was ordered with `--ttl`, so it is no failure.
    let mut absent = publication.absent.iter();
    let is_absent = absent.any(|(_, word)| State::from_word(word) != Some(State::Queued));
    i32::from(failed || is_absent)
}

/// Returns why a minion cannot have this word at `ended`.
pub(super) fn against_word(
    ledger: &Ledger<'_>,
    publication: &Publication,
    minion: &str,
    word: &str,
    ended: Duration,
) -> Option<&'static str> {
    let number = minion_number(minion)?;
    let history = &ledger.evidence.history;
    let bound = ledger.evidence.return_bound;
    let began = publication.began;
    let who = [Who::Minion(number), Who::Master];
    let was_there = |until| {
        let back = history.back_at(number, began, bound);
        back.is_some_and(|back| back <= began) && history.left_alone(&who, began, until)
    };
    let key_deleted = || ledger.key_was_deleted(minion, began, ended);
    // The exact time at which the master published the job is not known.
    let published = match publication.job.batch {
        Some(_) => ended,
        None => ended.min(began + COMMAND_DELAY),
    };
    match State::from_word(word) {
        Some(State::NotConnected | State::Queued) if was_there(published) && !key_deleted() => {
            Some("it was there when the job was published")
        }
        Some(State::Queued) if publication.job.ttl.is_none() => Some("the job has no --ttl"),
        Some(State::Waiting) if publication.job.batch.is_none() => Some("the job is no batch"),
        Some(State::Declined) => Some("it matches the target"),
        Some(State::Cancelled) => {
            let acts = publication.acts.iter();
            let by_operator = acts.clone().any(|act| act.act == JobAct::Cancel);
            let by_failure = publication.job.batch.is_some() && publication.job.fails_on.is_some();
            (!by_operator && !by_failure).then_some("nobody cancelled the job")
        }
        Some(State::Withdrawn) => (!key_deleted()).then_some("its key was not deleted"),
        Some(State::MayHaveRun | State::LostTrack) => {
            let until = ledger.handed_over_until(publication, minion);
            let explained = ledger.forgot_within(minion, began, until)
                || ledger.was_double(minion, began, until)
                || ledger.lost_within(began, until);
            (!explained).then_some("it lost nothing")
        }
        Some(State::ReturnedAndLost) => {
            (!ledger.lost_within(began, ended)).then_some("the store was not replaced")
        }
        // Every other word says that the minion was disturbed: an undisturbed one has returned.
        _ if was_there(ended) && !key_deleted() => Some("nothing was done to it or to the master"),
        _ => None,
    }
}

/// Returns the last time at which an answer to a job could come: its runs have ended, and the faults that hit the master and the
/// job's minions meanwhile are over. Returns `None` when that time is not known.
fn last_answer(
    ledger: &Ledger<'_>,
    publication: &Publication,
    ended: Duration,
) -> Option<Duration> {
    let token = publication.job.token;
    let mut last = publication.began;
    let mut who = vec![Who::Master];
    for minion in ledger.expected(publication) {
        who.extend(minion_number(&minion).map(Who::Minion));
        for run in ledger.runs_of(token, &minion).filter(|run| run.at <= ended) {
            last = last.max(run.ended.unwrap_or(run.at + publication.job.takes));
        }
    }
    let bound = ledger.evidence.return_bound;
    let mut meanwhile: Vec<_> = ledger.evidence.history.disturbances.iter().collect();
    meanwhile
        .retain(|d| who.contains(&d.who) && d.to.is_none_or(|end| end + bound > publication.began));
    meanwhile.sort_by_key(|d| d.from);
    for disturbance in meanwhile {
        if disturbance.from < last + TIMEOUT {
            last = last.max(disturbance.to? + bound);
        }
    }
    Some(last)
}
