//! An example of every verb of callers, as `verbs` has those of the others.

use saline_data::{Packed, Value};
use saline_messages::{
    Arguments, CallerRequest, CallerReturn, MinionEvent, MinionEvents, RequestId, StartId,
};

use super::verbs::{START, mine_request, pillar_request};

/// Returns the verb after this one; none after the last.
fn next_of_caller(verb: &CallerRequest) -> Option<CallerRequest> {
    Some(match verb {
        CallerRequest::Return(_) => CallerRequest::FireEvents(MinionEvents {
            start: StartId(START),
            first: 1,
            events: vec![MinionEvent {
                tag: "forged".into(),
                data: Packed::pack(&Value::Map(vec![("id".into(), Value::from("victim"))])),
            }],
        }),
        CallerRequest::FireEvents(_) => CallerRequest::Pillar(pillar_request()),
        CallerRequest::Pillar(_) => CallerRequest::Mine(mine_request()),
        CallerRequest::Mine(_) => CallerRequest::CheckReturners(Vec::new()),
        CallerRequest::CheckReturners(_) => return None,
    })
}

/// Returns an example of every verb of callers.
pub fn of_callers() -> Vec<CallerRequest> {
    let first = CallerRequest::Return(CallerReturn {
        request_id: RequestId([6; 16]),
        fun: "test.called".into(),
        arg: Arguments::default().pack(),
        user: "root".into(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::from("called")),
        returners: Vec::new(),
    });
    std::iter::successors(Some(first), next_of_caller).collect()
}
