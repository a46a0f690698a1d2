//! What can happen to the requests of one client.

use proptest::prelude::*;

use super::LARGEST;

/// What may happen next.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Submit {
        size: usize,
        /// Seconds from now; below one, it has passed.
        deadline: i64,
    },
    /// The writer puts so many requests together, behind a ping if it has one to say.
    Stage {
        most: usize,
        ping: bool,
    },
    /// The connection takes so many bytes.
    Write(usize),
    /// An outcome arrives for some request, wherever that is.
    Settle {
        request: usize,
        reply: bool,
    },
    /// A caller that was woken looks, or one that was not.
    Fetch(usize),
    CallerGoes(usize),
    TimePasses(u64),
    /// Requests expire in two parts; what happens between them is anything.
    ExpireSent,
    ConnectionLost,
    /// What is larger has to wait for admission, which may have come.
    HoldAbove(usize),
    Close,
}

/// Returns any step.
pub(super) fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => 0usize..60, 2 => 4000usize..=LARGEST, 1 => LARGEST..LARGEST + 3];
    let deadline = prop_oneof![12 => 1i64..60, 1 => -2i64..=0];
    prop_oneof![
        12 => (size, deadline).prop_map(|(size, deadline)| Step::Submit { size, deadline }),
        8 => (1usize..6, any::<bool>()).prop_map(|(most, ping)| Step::Stage { most, ping }),
        8 => prop_oneof![0usize..60, 0usize..20_000].prop_map(Step::Write),
        8 => (0usize..40, any::<bool>()).prop_map(|(request, reply)| Step::Settle { request, reply }),
        6 => (0usize..40).prop_map(Step::Fetch),
        4 => (0usize..40).prop_map(Step::CallerGoes),
        4 => (1u64..20).prop_map(Step::TimePasses),
        4 => Just(Step::ExpireSent),
        2 => Just(Step::ConnectionLost),
        3 => prop_oneof![Just(30), Just(5000), Just(usize::MAX)].prop_map(Step::HoldAbove),
        1 => prop::bool::weighted(0.1).prop_map(|close| if close { Step::Close } else { Step::ExpireSent }),
    ]
}
