//! What one minion may have the master do, and that it costs no other minion anything.

use saline_data::Packed;
use saline_messages::{
    Arguments, CallerRequest, CallerReturn, FunctionsReport, GrainsReport, Jid,
    MAX_MINE_VALUE_BYTES, MineEntry, MineRequest, MinionEvent, MinionEvents, MinionRequest,
    Outgoing, RequestId, Return, ReturnPart, StartId,
};

use super::*;

const UNBOUNDED: EventRates = EventRates {
    events: None,
    bytes: None,
};

fn id(text: &str) -> MinionId {
    MinionId::parse(text).unwrap()
}

fn jid(number: u64) -> Jid {
    Jid::parse(&format!("{number:020}")).unwrap()
}

/// Draws on the account of this minion.
fn draw(accounts: &Accounts, name: &str, cost: &Cost, events: EventRates) -> Result<(), Duration> {
    let peer = Principal::Minion(id(name));
    accounts.draw(&id(name), &peer, cost, events, |wanted| wanted)
}

/// Returns the cost of a request that is encoded in so many bytes, if all jobs are under way.
fn cost(request: &MinionRequest, bytes: usize) -> Cost {
    Cost::of_minion(request, bytes, |_| 0)
}

/// Draws until nothing is left, and returns how often that went well, and the delay that the minion is told.
fn exhaust(accounts: &Accounts, name: &str, cost: &Cost, events: EventRates) -> (usize, Duration) {
    for taken in 0..10_000_000 {
        if let Err(delay) = draw(accounts, name, cost, events) {
            return (taken, delay);
        }
    }
    panic!("there is no bound");
}

/// One minion uses up what it may have of something. Another has all of it still, and it may go on after the delay.
async fn is_bounded(cost: &Cost, taken: usize, events: EventRates) {
    let accounts = Accounts::new(Clock);
    let (greedy, delay) = exhaust(&accounts, "greedy", cost, events);
    assert_eq!(greedy, taken);
    assert_eq!(exhaust(&accounts, "other", cost, events).0, taken);
    Clock.pause(delay).await;
    assert_eq!(draw(&accounts, "greedy", cost, events), Ok(()));
    assert_eq!(accounts.report(), (2, 2), "two refusals were counted");
    // Everything comes back, and then nothing is kept.
    Clock.pause(Duration::from_secs(3_600)).await;
    accounts.sweep(events);
    assert_eq!(accounts.report(), (0, 2));
}

fn returned(number: u64) -> Return {
    Return {
        jid: jid(number),
        fun: "test.ping".to_owned(),
        retcode: 0,
        success: true,
        payload: Packed::from_bytes(vec![0xc3]),
    }
}

fn events(count: usize, size: usize) -> MinionRequest {
    let event = MinionEvent {
        tag: String::new(),
        data: Packed::from_bytes(vec![0; size]),
    };
    MinionRequest::FireEvents(MinionEvents {
        start: StartId([1; 16]),
        first: 1,
        events: vec![event; count],
    })
}

fn grains(packed: Option<Packed>) -> MinionRequest {
    MinionRequest::Grains(GrainsReport {
        digest: [0; 32],
        grains: packed,
    })
}

fn functions(encoded: Option<Vec<u8>>) -> MinionRequest {
    MinionRequest::Functions(FunctionsReport {
        digest: [0; 32],
        functions: encoded,
    })
}

#[tokio::test(start_paused = true)]
async fn bytes_of_requests_are_bounded() {
    let mebibyte = 1024 * 1024;
    is_bounded(&cost(&MinionRequest::Poll, 64 * mebibyte), 40, UNBOUNDED).await;
    is_bounded(&Cost::of_bytes(64 * mebibyte), 40, UNBOUNDED).await;
}

#[tokio::test(start_paused = true)]
async fn bytes_of_answers_are_bounded() {
    let accounts = Accounts::new(Clock);
    let asks = cost(
        &MinionRequest::PendingJobs {
            after: None,
            bytes: u64::MAX,
        },
        100,
    );
    let mut answered = 0;
    let delay = loop {
        match draw(&accounts, "greedy", &asks, UNBOUNDED) {
            Ok(()) => accounts.note_answer(&id("greedy"), 64 << 20),
            Err(delay) => break delay,
        }
        answered += 1;
    };
    assert_eq!(answered, 40);
    assert_eq!(draw(&accounts, "other", &asks, UNBOUNDED), Ok(()));
    Clock.pause(delay).await;
    assert_eq!(draw(&accounts, "greedy", &asks, UNBOUNDED), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn jobs_that_requests_name_are_bounded() {
    let returns = MinionRequest::Returns((0..64).map(returned).collect());
    is_bounded(&cost(&returns, 100), 500_000_usize.div_ceil(64), UNBOUNDED).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_that_have_ended_cost_more_than_those_under_way() {
    let all_closed = |jids: &[&Jid]| jids.len();
    let jids: Vec<_> = (0..100).map(jid).collect();
    let started = Cost::of_minion(&MinionRequest::Started(jids), 100, all_closed);
    is_bounded(&started, 200, UNBOUNDED).await;
    let request = MinionRequest::Declined { jid: jid(1) };
    is_bounded(
        &Cost::of_minion(&request, 100, all_closed),
        20_000,
        UNBOUNDED,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_the_disk_are_bounded() {
    let claim = MinionRequest::Claim { jid: jid(1) };
    is_bounded(&cost(&claim, 100), 100_000, UNBOUNDED).await;
}

#[tokio::test(start_paused = true)]
async fn farewells_are_bounded() {
    is_bounded(&cost(&MinionRequest::Goodbye(None), 100), 120, UNBOUNDED).await;
}

#[tokio::test(start_paused = true)]
async fn a_minion_reports_at_its_rate() {
    let all = grains(Some(Packed::from_bytes(vec![0x80])));
    is_bounded(&cost(&all, 100), 10, UNBOUNDED).await;
    let all = functions(Some(Vec::new()));
    is_bounded(&cost(&all, 100), 30, UNBOUNDED).await;
    let accounts = Accounts::new(Clock);
    for _ in 0..1_000 {
        for digest in [grains(None), functions(None)] {
            let digest = cost(&digest, 100);
            assert_eq!(
                draw(&accounts, "a", &digest, UNBOUNDED),
                Ok(()),
                "no report"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn parts_of_large_returns_are_bounded() {
    let part = MinionRequest::ReturnPart(ReturnPart {
        jid: jid(1),
        retcode: 0,
        success: true,
        part: Outgoing::new(vec![0; 100]).part(0, 1),
    });
    is_bounded(&cost(&part, 100), 20_000, UNBOUNDED).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_minion_leaves_in_the_mine_and_asks_of_it_is_bounded() {
    let mine = |request| cost(&MinionRequest::Mine(request), 100);
    is_bounded(&mine(MineRequest::Flush), 300, UNBOUNDED).await;
    let entry = MineEntry {
        name: String::new(),
        value: Packed::from_bytes(vec![0; MAX_MINE_VALUE_BYTES]),
        allowed: None,
    };
    is_bounded(&mine(MineRequest::Store(vec![entry])), 16, UNBOUNDED).await;
    // A caller draws on the account of its minion.
    let by_caller = Cost::of_caller(&CallerRequest::Mine(MineRequest::Flush), 100);
    is_bounded(&by_caller, 300, UNBOUNDED).await;
}

#[tokio::test(start_paused = true)]
async fn a_minion_fires_at_its_rate_and_does_not_disturb_others() {
    let rates = EventRates {
        events: Some(100),
        bytes: None,
    };
    is_bounded(&cost(&events(100, 0), 100), 10, rates).await;
}

#[tokio::test(start_paused = true)]
async fn bytes_count_as_well() {
    let rates = EventRates {
        events: None,
        bytes: Some(1_000),
    };
    let accounts = Accounts::new(Clock);
    let fires = cost(&events(3, 20_000), 100);
    let (taken, delay) = exhaust(&accounts, "a", &fires, rates);
    assert_eq!(taken, 1, "what is above the rate is owed");
    assert!(delay > Duration::from_secs(50), "{delay:?}");
    // The bound is lifted while the master runs.
    assert_eq!(draw(&accounts, "a", &fires, UNBOUNDED), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn calls_are_bounded_apart_from_what_the_minion_returns() {
    let call = |bytes| {
        Cost::of_caller(
            &CallerRequest::Return(CallerReturn {
                request_id: RequestId([1; 16]),
                fun: String::new(),
                arg: Arguments::default().pack(),
                user: "root".to_owned(),
                retcode: 0,
                success: true,
                payload: Packed::from_bytes(vec![0; bytes]),
                returners: Vec::new(),
            }),
            bytes,
        )
    };
    is_bounded(&call(1), 100, UNBOUNDED).await;
    is_bounded(&call(5 << 20), 4, UNBOUNDED).await;
    let accounts = Accounts::new(Clock);
    exhaust(&accounts, "a", &call(1), UNBOUNDED);
    let returns = MinionRequest::Returns(vec![returned(1)]);
    assert_eq!(
        draw(&accounts, "a", &cost(&returns, 100), UNBOUNDED),
        Ok(())
    );
}

#[tokio::test(start_paused = true)]
async fn jobs_that_are_open_at_a_time_are_bounded() {
    let accounts = Accounts::new(Clock);
    let peer = Principal::Minion(id("a"));
    let started = |count| cost(&MinionRequest::Started((0..count).map(jid).collect()), 100);
    let begin = |count, room: usize| {
        let may_run = |wanted: usize| wanted.min(room);
        accounts.draw(&id("a"), &peer, &started(count), UNBOUNDED, may_run)
    };
    assert_eq!(begin(10, 10), Ok(()));
    assert_eq!(begin(11, 10), Err(JOBS_OPEN_DELAY));
    assert_eq!(accounts.report(), (1, 1));
    // A request that begins no job is not refused.
    let heartbeat = cost(&MinionRequest::Poll, 100);
    assert_eq!(
        accounts.draw(&id("a"), &peer, &heartbeat, UNBOUNDED, |_| 0),
        Ok(())
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_refused_takes_nothing() {
    let accounts = Accounts::new(Clock);
    exhaust(
        &accounts,
        "a",
        &cost(&MinionRequest::Goodbye(None), 100),
        UNBOUNDED,
    );
    for _ in 0..1_000 {
        let large = cost(&MinionRequest::Goodbye(None), 64 << 20);
        assert!(draw(&accounts, "a", &large, UNBOUNDED).is_err());
    }
    assert_eq!(
        draw(&accounts, "a", &cost(&MinionRequest::Poll, 100), UNBOUNDED),
        Ok(())
    );
}

#[tokio::test(start_paused = true)]
async fn an_account_goes_with_the_key() {
    let accounts = Accounts::new(Clock);
    let farewell = cost(&MinionRequest::Goodbye(None), 100);
    exhaust(&accounts, "a", &farewell, UNBOUNDED);
    accounts.sweep(UNBOUNDED);
    assert!(
        draw(&accounts, "a", &farewell, UNBOUNDED).is_err(),
        "it owes still"
    );
    accounts.forget(&id("a"));
    assert_eq!(
        draw(&accounts, "a", &farewell, UNBOUNDED),
        Ok(()),
        "another machine"
    );
}

#[tokio::test(start_paused = true)]
async fn the_log_names_a_minion_once_a_second() {
    let accounts = Accounts::new(Clock);
    let farewell = cost(&MinionRequest::Goodbye(None), 100);
    exhaust(&accounts, "a", &farewell, UNBOUNDED);
    let is_reported = || {
        let taken = accounts.take(&id("a"), &farewell, UNBOUNDED, None);
        taken.map_err(|exceeded| (exceeded.resource, exceeded.is_reported))
    };
    assert_eq!(is_reported(), Err((Resource::Presences, false)));
    accounts.note_answer(&id("a"), usize::MAX >> 1);
    Clock.pause(Duration::from_secs(1)).await;
    assert_eq!(
        is_reported(),
        Err((Resource::BytesOut, true)),
        "it waits for this one longest"
    );
    assert_eq!(is_reported(), Err((Resource::BytesOut, false)));
}
