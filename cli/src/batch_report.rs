//! The lines that `saline` prints about a batch.

use saline_messages::Batch;

use crate::absence::LookUp;

/// Returns the line about a batch that nobody asked for.
pub(crate) fn unasked(minions: usize, batch: &Batch) -> String {
    format!(
        "{minions} minions match, so the job is offered to {} of them at a time (batch_safe_limit, batch_safe_size)",
        batch.size
    )
}

/// Returns the line about a batch that ended before every minion had its turn, with the number of minions that
/// were not asked: because a minion failed, or, when none is known to have failed, because somebody stopped it.
pub(crate) fn halted(failed: Option<&(String, i64)>, left: usize) -> String {
    let left = match left {
        1 => "1 minion was".to_owned(),
        left => format!("{left} minions were"),
    };
    match failed {
        Some((minion, retcode)) => format!(
            "ERROR: the batch was halted, since {minion} failed with retcode {retcode}: {left} not asked (--failhard)"
        ),
        None => format!("ERROR: the batch was stopped: {left} not asked"),
    }
}

/// Returns how a batch goes on whose command was interrupted.
pub(crate) fn goes_on(look_up: &LookUp) -> String {
    let LookUp { jid, options } = look_up;
    format!(
        "The batch goes on without this command. To see how far it has come, to stop it, or to look up what was returned, run one of the following commands:\n\nsaline-run batch.status {jid}{options}\nsaline-run batch.stop {jid}{options}\n{}",
        look_up.command()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use saline_messages::Jid;

    #[test]
    fn what_is_said_of_a_batch() {
        let batch = Batch {
            size: 8,
            wait_ms: 0,
            timeout_ms: 0,
            failhard: true,
            queues: false,
        };
        let look_up = LookUp {
            jid: Jid::parse("20261121091409931549").unwrap(),
            options: " -c /tmp/x".to_owned(),
        };
        let web7 = ("web7".to_owned(), 3);
        let said = [
            unasked(120, &batch),
            halted(Some(&web7), 12),
            halted(None, 1),
            goes_on(&look_up),
        ];
        insta::assert_snapshot!(said.join("\n"), @"
        120 minions match, so the job is offered to 8 of them at a time (batch_safe_limit, batch_safe_size)
        ERROR: the batch was halted, since web7 failed with retcode 3: 12 minions were not asked (--failhard)
        ERROR: the batch was stopped: 1 minion was not asked
        The batch goes on without this command. To see how far it has come, to stop it, or to look up what was returned, run one of the following commands:

        saline-run batch.status 20261121091409931549 -c /tmp/x
        saline-run batch.stop 20261121091409931549 -c /tmp/x
        saline-run jobs.lookup_jid 20261121091409931549 -c /tmp/x
        ");
    }
}
