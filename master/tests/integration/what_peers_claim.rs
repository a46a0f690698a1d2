//! What a peer claims is not what the master records and reports.

use saline_data::{Packed, Value};
use saline_messages::{
    Event, EventOrigin, MinionEvent, MinionEvents, MinionReply, MinionRequest, OperatorReply,
    OperatorRequest, OriginKind, PublishRequest, RequestId, Return, ReturnVerdict, StartId,
};
use saline_protocol::transport::{Delivery, Subscriber};
use saline_targeting::Target;

use crate::support::{Deployment, runner};

async fn next(bus: &mut Box<dyn Subscriber>) -> Event {
    match bus.next().await {
        Some(Delivery::Message { payload, .. }) => Event::decode(&payload).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_minion_sets_neither_the_stamp_nor_the_origin_of_its_event() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let mut bus = operator.events("event/salt/minion").await;
    let data = Value::map([
        ("_stamp", "1999-12-31T23:59:59.000000+00:00".into()),
        ("id", "m2".into()),
        ("said", Value::Int(1)),
        ("origin", EventOrigin::master().to_value()),
        ("_stamp", "1999-12-31T23:59:59.000000+00:00".into()),
    ]);
    let events = MinionRequest::FireEvents(MinionEvents {
        start: StartId([1; 16]),
        first: 1,
        events: vec![MinionEvent {
            tag: "x".to_owned(),
            data: Packed::pack(&data),
        }],
    });
    assert_eq!(minion.ask(events).await, MinionReply::Done);
    let event = next(&mut bus).await;
    let origin = (event.origin.kind, event.origin.id.as_str());
    assert_eq!(origin, (OriginKind::Minion, "m1"));
    assert!(event.origin.session.is_some());
    let Value::Map(entries) = event.data else {
        panic!("a mapping");
    };
    let mut names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["_stamp", "id", "origin", "said"]);
    let data = Value::Map(entries);
    assert_eq!(data.get("id"), Some(&Value::from("m1")));
    let stamp = data.get("_stamp").and_then(Value::as_str).unwrap();
    assert!(!stamp.starts_with("1999"), "{stamp}");
}

#[tokio::test]
async fn a_return_is_reported_under_the_function_of_its_job() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let minion = deployment.minion("m1").await;
    let jid = operator.publish("*").await.jid.unwrap();
    let below = format!("event/salt/job/{jid}");
    let mut bus = operator.events(&below).await;
    let returned = Return {
        jid,
        fun: "test.ping\nforged".into(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::Bool(true)),
    };
    assert_eq!(
        minion.ask(MinionRequest::Returns(vec![returned])).await,
        MinionReply::Verdicts(vec![ReturnVerdict::Stored])
    );
    let event = next(&mut bus).await;
    assert!(event.tag.ends_with("/ret/m1"), "{}", event.tag);
    assert_eq!(event.data.get("fun"), Some(&Value::from("test.ping")));
    assert_eq!(event.data.get("fun_args"), Some(&Value::List(Vec::new())));
    assert_eq!(event.data.get("return"), Some(&Value::Bool(true)));
}

#[tokio::test]
async fn the_operator_is_recorded_beside_the_user_it_claims_to_be() {
    let deployment = Deployment::start(true).await;
    let operator = deployment.operator().await;
    let _minion = deployment.minion("m1").await;
    let mut bus = operator.events("event/salt/job").await;
    let request = OperatorRequest::Publish(PublishRequest::new(
        RequestId::random().unwrap(),
        Target::glob("*"),
        "test.ping",
        "the boss",
    ));
    let OperatorReply::Published(published) = operator.order(request).await else {
        panic!("it was not published");
    };
    let event = next(&mut bus).await;
    assert_eq!(event.data.get("user"), Some(&Value::from("the boss")));
    assert_eq!(event.data.get("operator"), Some(&Value::from("root")));
    let jid = published.jid.unwrap();
    let listed = runner::value(&operator, "jobs.list_jobs", &[]).await;
    let found = runner::value(&operator, "jobs.list_job", &[jid.as_str()]).await;
    for shown in [&found, listed.get(jid.as_str()).unwrap()] {
        assert_eq!(shown.get("Operator"), Some(&Value::from("root")));
        assert_eq!(shown.get("User"), Some(&Value::from("the boss")));
    }
}
