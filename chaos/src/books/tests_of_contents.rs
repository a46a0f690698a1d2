//! Tests that the books find doctored returns, words and times, and that excuses hold for a limited time.

use super::tests::*;
use super::*;
use crate::contents::Content;
use crate::plan::JobAct;
use crate::publisher::DoneAct;
use crate::states::State;
use crate::store::StoredReturn;
use crate::timeline::Loss;

const NONE: [&str; 0] = [];

/// The same evidence with another stored return.
fn returning(content: Content, retcode: i64) -> Evidence {
    let mut evidence = balanced();
    detach(&mut evidence);
    let job = evidence.jobs.get_mut(JID).unwrap();
    let stored = StoredReturn { retcode, content };
    job.returns.insert("m1".to_owned(), vec![stored]);
    evidence
}

#[test]
fn a_return_that_is_not_what_the_job_printed_is_found() {
    let Content::Whole(right) = printed_by("m1") else {
        return;
    };
    let mut short = right.clone();
    short.prints -= 1;
    let mut of_another_job = right.clone();
    of_another_job.token = Token(2);
    let mut of_another_minion = right.clone();
    of_another_minion.instance = "m2".to_owned();
    for wrong in [short, of_another_job, of_another_minion] {
        let evidence = returning(Content::Whole(wrong.clone()), 0);
        assert_eq!(broken(&evidence), ["contents"], "{wrong:?}");
    }
    let damaged = returning(Content::Other("x".to_owned()), 0);
    assert_eq!(broken(&damaged), ["contents"]);
    assert_eq!(broken(&returning(printed_by("m1"), 1)), ["contents"]);
    assert_eq!(broken(&returning(printed_by("m1"), 0)), NONE);
}

#[test]
fn a_return_that_says_that_the_job_never_began_needs_a_minion_that_ended_and_no_run() {
    let text = "ERROR: the process of this job (cmd.run) was never started, since the minion was ended first: the job did not run";
    let mut evidence = returning(Content::of_text(text), 130);
    evidence.runs.clear();
    assert!(broken(&evidence).contains(&"contents"));
    evidence.history.disturbances = vec![down(1, 20, 23)];
    assert!(!broken(&evidence).contains(&"contents"));
    evidence.runs = balanced().runs;
    assert!(broken(&evidence).contains(&"contents"), "it ran");
}

#[test]
fn a_printed_return_is_compared_too() {
    let mut evidence = balanced();
    evidence.publications[0].returns[0].content = printed_by("m3");
    assert_eq!(broken(&evidence), ["contents"]);
}

#[test]
fn an_interrupted_return_needs_a_loss_of_power_during_the_run() {
    // The run is from 20.0 s to 20.1 s.
    let mut evidence = returning(Content::Interrupted, 130);
    assert_eq!(broken(&evidence), ["contents"]);
    evidence.history.disturbances = vec![down(1, 20, 23)];
    assert_eq!(broken(&evidence), ["contents"], "a job outlives its minion");
    let mut lost = |minion, seconds| {
        let at = at(seconds);
        evidence.history.losses = vec![Loss::Power {
            minion,
            at,
            synced: true,
        }];
        broken(&evidence)
    };
    assert_eq!(lost(1, 25), ["contents"], "it was after the run");
    assert_eq!(lost(2, 20), ["contents"], "it was another minion");
    assert_eq!(lost(1, 20), NONE);
}

#[test]
fn an_interrupted_return_of_a_clone_may_be_what_a_store_has_that_was_put_back() {
    let mut evidence = returning(Content::Interrupted, 130);
    let cloned = Loss::Cloned {
        minion: 1,
        from: at(19),
        to: at(24),
    };
    let restored = Loss::Restored {
        from: at(25),
        to: at(30),
    };
    for (losses, expected) in [
        (vec![cloned], &["contents"][..]),
        (vec![restored], &["contents"]),
        (vec![cloned, restored], &NONE),
    ] {
        evidence.history.losses = losses;
        assert_eq!(broken(&evidence), expected);
    }
}

#[test]
fn a_loss_of_power_excuses_an_interrupted_return_until_the_return_was_delivered() {
    let loses_power = |seconds, synced| {
        let mut evidence = returning(Content::Interrupted, 130);
        evidence.history.disturbances = vec![down(1, seconds, seconds + 1)];
        evidence.history.losses = vec![Loss::Power {
            minion: 1,
            at: at(seconds),
            synced,
        }];
        broken(&evidence)
    };
    assert_eq!(loses_power(25, false), NONE);
    assert_eq!(loses_power(25, true), ["contents"], "its spool is synced");
    assert_eq!(
        loses_power(60, false),
        ["contents"],
        "its return is delivered"
    );
}

#[test]
fn with_a_synced_spool_a_loss_of_power_explains_no_state() {
    let mut evidence = balanced();
    detach(&mut evidence);
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::MayHaveRun, 0));
    let mut power = |synced| {
        evidence.history.losses = vec![Loss::Power {
            minion: 1,
            at: at(21),
            synced,
        }];
        broken(&evidence)
    };
    assert_eq!(power(true), ["true states"]);
    assert_eq!(power(false), NONE);
}

#[test]
fn a_job_for_a_machine_that_has_just_lost_its_power_may_have_run() {
    let lost = |from, to| {
        let mut evidence = balanced();
        detach(&mut evidence);
        evidence.runs.clear();
        evidence
            .jobs
            .insert(JID.to_owned(), stored(State::MayHaveRun, 0));
        evidence.history.disturbances = vec![down(1, from, to)];
        evidence.history.losses = vec![Loss::Power {
            minion: 1,
            at: at(from),
            synced: false,
        }];
        broken(&evidence)
    };
    // The job was published at 20 s.
    assert_eq!(lost(19, 22), NONE);
    assert_eq!(lost(17, 19), ["true states", "in time"]);
}

#[test]
fn a_clone_excuses_for_sixty_heartbeats_and_not_for_ever() {
    let mut evidence = balanced();
    detach(&mut evidence);
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::LostTrack, 0));
    let mut cloned = |from, to| {
        evidence.history.losses = vec![Loss::Cloned {
            minion: 1,
            from: at(from),
            to: at(to),
        }];
        broken(&evidence)
    };
    assert_eq!(cloned(25, 30), NONE);
    assert_eq!(cloned(60, 70), ["true states"]);
}

#[test]
fn a_second_run_after_a_rollback_is_counted_when_the_copy_is_younger_than_a_heartbeat() {
    let mut evidence = balanced();
    evidence.runs.push(run(23));
    let mut rolled_back = |from| {
        evidence.history.losses = vec![Loss::RolledBack {
            minion: 1,
            from,
            to: at(21),
        }];
        let book = check(&evidence).remove(0);
        (book.findings.len(), book.counted.len())
    };
    assert_eq!(rolled_back(at(20)), (0, 1));
    assert_eq!(
        rolled_back(at(15)),
        (1, 0),
        "heartbeats came after the copy"
    );
    assert_eq!(rolled_back(at(21)), (1, 0), "the copy has the first run");
}

#[test]
fn an_expired_run_is_counted_when_the_disk_was_put_back_between_heartbeats() {
    let mut evidence = balanced();
    detach(&mut evidence);
    let expired = stored(State::Expired, 0);
    evidence.jobs.insert(JID.to_owned(), expired);
    let told = [("m1".to_owned(), "Expired".to_owned())];
    evidence.publications[0].absent = told.into();
    let mut rolled_back = |losses| {
        evidence.history.losses = losses;
        broken(&evidence)
    };
    let put_back = |from| Loss::RolledBack {
        minion: 1,
        from,
        to: at(21),
    };
    assert_eq!(rolled_back(vec![put_back(at(20))]), NONE);
    let found = ["true states", "told"];
    assert_eq!(rolled_back(vec![put_back(at(15))]), found);
    assert_eq!(rolled_back(Vec::new()), found);
    // The minion was away when its disk was copied: the heartbeat with which it came back is heard soon after.
    evidence.history.losses = vec![put_back(at(13))];
    let mut back_at = |end| {
        evidence.history.disturbances = vec![down(1, 12, end)];
        broken(&evidence)
    };
    assert_eq!(back_at(16), NONE);
    assert_eq!(back_at(14), found);
}

#[test]
fn a_state_without_a_cause_is_found_also_where_nothing_ran() {
    for state in [
        State::NotConnected,
        State::Declined,
        State::Cancelled,
        State::Withdrawn,
        State::LostTrack,
        State::ReturnedAndLost,
    ] {
        let mut evidence = balanced();
        detach(&mut evidence);
        evidence.runs.clear();
        evidence.jobs.insert(JID.to_owned(), stored(state, 0));
        assert_eq!(broken(&evidence), ["true states"], "{state}");
    }
}

#[test]
fn a_key_that_was_deleted_and_a_job_that_was_cancelled_explain_their_states() {
    let mut evidence = balanced();
    detach(&mut evidence);
    evidence.runs.clear();
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::Withdrawn, 0));
    evidence.history.losses = vec![Loss::KeyDeleted {
        minion: 1,
        at: at(21),
    }];
    assert_eq!(broken(&evidence), NONE);
    evidence.history.losses = vec![Loss::KeyDeleted {
        minion: 1,
        at: at(1),
    }];
    let long_ago = broken(&evidence);
    assert_eq!(long_ago, ["true states"], "it was let in again meanwhile");
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::Cancelled, 0));
    assert_eq!(broken(&evidence), ["true states"]);
    evidence.publications[0].acts.push(cancelled("cancelled"));
    assert_eq!(broken(&evidence), NONE);
}

fn cancelled(answer: &str) -> DoneAct {
    DoneAct {
        act: JobAct::Cancel,
        from: at(20),
        to: at(21),
        answers: [("m1".to_owned(), answer.to_owned())].into(),
    }
}

#[test]
fn a_minion_that_runs_what_was_cancelled_there_is_found() {
    let mut evidence = balanced();
    evidence.publications[0].acts.push(cancelled("cancelled"));
    assert_eq!(broken(&evidence), ["told"]);
    evidence.publications[0].acts = vec![cancelled("offered; cancelled when it reports")];
    assert_eq!(broken(&evidence), NONE);
}

#[test]
fn a_minion_that_is_not_named_or_named_twice_or_not_meant_is_found() {
    let mut evidence = balanced();
    evidence.publications[0].returns.clear();
    assert_eq!(broken(&evidence), ["named"]);
    let mut evidence = balanced();
    let twice = evidence.publications[0].returns[0].clone();
    evidence.publications[0].returns.push(twice);
    assert_eq!(broken(&evidence), ["named"]);
    let mut evidence = balanced();
    evidence.publications[0].absent = vec![("m4".to_owned(), "Offered".to_owned())];
    evidence.publications[0].exit = Some(1);
    assert_eq!(broken(&evidence), ["named"]);
}

#[test]
fn a_word_without_a_cause_is_found_and_one_with_a_cause_is_not() {
    for word in [
        "Not connected",
        "Offered",
        "No response",
        "Running",
        "Queued",
        "Waiting",
        "Unconfirmed",
        "Lost track",
        "May have run",
        "Cancelled",
        "Withdrawn",
        "Return not delivered",
        "No key",
    ] {
        let mut evidence = balanced();
        evidence.publications[0].returns.clear();
        evidence.publications[0].absent = vec![("m1".to_owned(), word.to_owned())];
        evidence.publications[0].exit = Some(1);
        assert!(broken(&evidence).contains(&"named"), "{word}");
    }
    let mut evidence = balanced();
    evidence.publications[0].returns.clear();
    evidence.publications[0].absent = vec![("m1".to_owned(), "No response".to_owned())];
    evidence.publications[0].exit = Some(1);
    evidence.history.disturbances = vec![down(1, 20, 30)];
    assert_eq!(broken(&evidence), NONE);
}

#[test]
fn a_wrong_exit_code_is_found() {
    let mut evidence = balanced();
    evidence.publications[0].exit = Some(1);
    assert_eq!(broken(&evidence), ["named"]);
    // It fails on this minion.
    evidence.publications[0].job.fails_on = Some(1);
    let job = evidence.jobs.get_mut(JID).unwrap();
    job.returns.get_mut("m1").unwrap()[0].retcode = crate::plan::FAILS_WITH;
    assert_eq!(broken(&evidence), NONE);
    evidence.publications[0].exit = Some(0);
    assert_eq!(broken(&evidence), ["named"]);
}

#[test]
fn a_publication_that_failed_needs_a_cause() {
    let mut evidence = balanced();
    evidence.jobs.clear();
    evidence.runs.clear();
    evidence.publications[0].returns.clear();
    evidence.publications[0].jid = None;
    evidence.publications[0].exit = Some(2);
    assert_eq!(broken(&evidence), ["named"]);
    let mut away = down(1, 18, 19);
    away.who = crate::timeline::Who::Master;
    evidence.history.disturbances = vec![away];
    assert_eq!(broken(&evidence), NONE);
    evidence.history.disturbances.clear();
    evidence.history.losses = vec![Loss::KeyDeleted {
        minion: 1,
        at: at(19),
    }];
    assert_eq!(broken(&evidence), NONE, "nobody is known under the id");
}

#[test]
fn a_command_line_that_waits_for_nothing_is_found() {
    let mut evidence = balanced();
    evidence.publications[0].ended = Some(at(40));
    assert_eq!(broken(&evidence), ["waited"]);
    // The minion was away meanwhile.
    evidence.history.disturbances = vec![down(1, 22, 33)];
    assert_eq!(broken(&evidence), NONE);
    evidence.history.disturbances = vec![down(2, 22, 33)];
    assert_eq!(broken(&evidence), ["waited"]);
}

#[test]
fn an_offer_that_nobody_can_look_up_is_found() {
    let mut evidence = balanced();
    detach(&mut evidence);
    evidence.runs.clear();
    evidence
        .jobs
        .insert(JID.to_owned(), stored(State::Offered, 0));
    // Nobody has looked it up.
    assert_eq!(broken(&evidence), ["an end", "in time"]);
    let failed = Err("exit status: 1".to_owned());
    evidence.lookups.insert(JID.to_owned(), failed);
    assert_eq!(broken(&evidence), ["an end", "in time", "seen as stored"]);
}
