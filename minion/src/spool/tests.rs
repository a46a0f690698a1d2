use std::time::Duration;

use super::file::COMPACTED_AGAIN;
use super::index::CACHED_BYTES;
use super::*;
use proptest::prelude::*;
use saline_messages::{Arguments, MustClaim};
use saline_protocol::transport::Clock;
use saline_targeting::Target;

fn jid(number: u64) -> Jid {
    Jid::parse(&format!("20261121{number:012}")).unwrap()
}

fn job(number: u64) -> Job {
    Job {
        jid: jid(number),
        target: Target::glob("*"),
        fun: "test.ping".into(),
        arg: Arguments::default().pack(),
        user: "root".into(),
        created: 1000,
        expires: 61_000,
        claims: MustClaim::NOBODY,
    }
}

fn returned(number: u64, text: &str) -> Return {
    Return {
        jid: jid(number),
        fun: "test.ping".into(),
        retcode: 0,
        success: true,
        payload: Packed::pack(&Value::from(text)),
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("cache/spool.log")
    }

    fn open(&self) -> Spool {
        Spool::open(self.path(), false).unwrap()
    }

    fn size(&self) -> u64 {
        std::fs::metadata(self.path()).map_or(0, |data| data.len())
    }
}

#[test]
fn returns_are_kept_in_memory_while_there_is_room() {
    let folder = Folder::new();
    let spool = folder.open();
    let large = "x".repeat(CACHED_BYTES / 2 - 100);
    let finish = |number| {
        spool.begin(&job(number)).unwrap();
        assert!(spool.finish(returned(number, &large)));
    };
    let is_in_memory = |number| spool.in_memory(&jid(number)).is_some();
    (1..=3).for_each(finish);
    assert_eq!([1, 2, 3].map(is_in_memory), [true, true, false]);
    let read = spool.read(&jid(3)).unwrap();
    assert_eq!(read, Some(returned(3, &large)));
    spool.done(&[jid(1)], None, 1);
    finish(4);
    assert_eq!([2, 3, 4].map(is_in_memory), [true, false, true]);
}

#[test]
fn a_return_stays_until_it_is_done() {
    let folder = Folder::new();
    let spool = folder.open();
    spool.begin(&job(1)).unwrap();
    assert_eq!(spool.take_unsent(), None);
    spool.finish(returned(1, "a"));
    assert_eq!(spool.take_unsent(), Some(jid(1)));
    assert_eq!(spool.take_unsent(), None, "taken once");
    spool.put_back(&jid(1));
    drop(spool);

    let spool = folder.open();
    assert_eq!(spool.unacknowledged(), 1);
    assert_eq!(spool.take_unsent(), Some(jid(1)));
    assert_eq!(spool.in_memory(&jid(1)), None);
    assert_eq!(spool.read(&jid(1)).unwrap(), Some(returned(1, "a")));
    spool.done(&[jid(1)], None, 1);
    spool.put_back(&jid(1));
    assert_eq!(spool.take_unsent(), None);
    drop(spool);

    let spool = folder.open();
    assert_eq!(spool.unacknowledged(), 0);
    assert!(spool.is_seen(&jid(1)));
    assert!(matches!(spool.begin(&job(1)), Err(BeginError::Seen)));
    assert!(!spool.is_seen(&jid(2)));
}

#[test]
fn what_was_begun_and_did_not_return_was_interrupted() {
    let folder = Folder::new();
    folder.open().begin(&job(1)).unwrap();
    for _ in 0..2 {
        let spool = folder.open();
        assert_eq!(spool.take_unsent(), Some(jid(1)));
        let said = spool.read(&jid(1)).unwrap().unwrap();
        assert_eq!((said.retcode, said.success), (RETCODE_INTERRUPTED, false));
        assert_eq!(said.fun, "test.ping");
        assert_eq!(said.payload.unpack().unwrap(), Value::from(INTERRUPTED));
        assert!(spool.is_seen(&jid(1)));
    }
}

#[test]
fn a_torn_tail_is_cut_off_and_the_rest_stands() {
    let folder = Folder::new();
    let spool = folder.open();
    spool.begin(&job(1)).unwrap();
    spool.finish(returned(1, "a"));
    let whole = folder.size();
    spool.begin(&job(2)).unwrap();
    spool.finish(returned(2, "b"));
    drop(spool);
    let bytes = std::fs::read(folder.path()).unwrap();
    for cut in whole as usize..bytes.len() {
        std::fs::write(folder.path(), &bytes[..cut]).unwrap();
        let spool = folder.open();
        assert_eq!(spool.read(&jid(1)).unwrap(), Some(returned(1, "a")));
        // What is written next stands where it is found again.
        spool.begin(&job(3)).unwrap();
        spool.finish(returned(3, "c"));
        drop(spool);
        let spool = folder.open();
        assert_eq!(
            spool.read(&jid(3)).unwrap(),
            Some(returned(3, "c")),
            "cut at {cut}"
        );
    }
}

#[test]
fn it_is_written_anew_when_it_has_grown() {
    let folder = Folder::new();
    let spool = folder.open();
    spool.begin(&job(1)).unwrap();
    spool.finish(returned(1, "kept"));
    spool.begin(&job(2)).unwrap();
    let large = "x".repeat(20_000);
    for number in 3..200 {
        spool.begin(&job(number)).unwrap();
        spool.finish(returned(number, &large));
        spool.done(&[jid(number)], Some(2000), 1);
    }
    assert!(folder.size() < 200_000, "{}", folder.size());
    assert_eq!(spool.read(&jid(1)).unwrap(), Some(returned(1, "kept")));
    drop(spool);
    let spool = folder.open();
    assert_eq!(spool.read(&jid(1)).unwrap(), Some(returned(1, "kept")));
    assert_eq!(
        spool.read(&jid(2)).unwrap().unwrap().retcode,
        RETCODE_INTERRUPTED
    );
    assert!((1..200).all(|number| spool.is_seen(&jid(number))));
}

#[test]
fn what_cannot_come_again_is_forgotten_and_the_rest_is_bounded() {
    let mut index = Index::default();
    for number in 0..10_100 {
        index.set(&jid(number), Some(number), SpooledJob::Done(None));
    }
    index.prune(Some(600_150));
    assert!(!index.is_seen(&jid(149)) && index.is_seen(&jid(150)));
    for number in 20_000..20_150 {
        index.set(&jid(number), Some(number), SpooledJob::Done(None));
    }
    index.prune(None);
    assert_eq!(index.entries.len(), 10_000);
    assert!(index.is_seen(&jid(249)), "by the floor");
    assert!(index.is_seen(&jid(0)), "by the floor");
    assert!(!index.is_seen(&jid(15_000)));
}

#[test]
fn what_was_concluded_in_a_time_far_ahead_is_taken_back() {
    const AHEAD: MasterTime = 700 * 86_400 * 1_000;
    let now = 1_000_000;
    let mut index = Index::default();
    for number in 0..10_100 {
        index.set(&jid(number), Some(AHEAD + number), SpooledJob::Done(None));
    }
    index.set(&jid(20_000), Some(AHEAD), SpooledJob::Running(None));
    index.prune(Some(AHEAD + 600_050));
    assert!(index.is_seen(&jid(0)), "by the floor");
    assert!(index.forgotten_until() > AHEAD);
    // The clocks of two masters may differ a little.
    index.begin_session(5, AHEAD + 200_000);
    assert!(index.forgotten_until() > AHEAD);
    index.begin_session(5, now);
    assert_eq!(index.forgotten_until(), now);
    assert!(!index.is_seen(&jid(0)) && !index.is_seen(&jid(10_050)));
    assert_eq!(index.known(&jid(20_000)), Known::Running, "that is true");
    let ack = index.settle(now, now + 60_000, 1, 9);
    assert_eq!((ack.after, ack.until), (now, now + 60_000));
}

#[test]
fn a_full_disk_loses_nothing_silently() {
    let folder = Folder::new();
    let spool = Spool::open("/dev/full/spool.log".into(), false);
    assert!(spool.is_err(), "not a folder");
    let spool = Spool::open("/dev/full".into(), false);
    // Reading it gives zeros without end, which are no records.
    let spool = spool.unwrap();
    let Err(BeginError::Io(error)) = spool.begin(&job(1)) else {
        panic!("it does not fit");
    };
    assert!(error.to_string().contains("space") || error.raw_os_error().is_some());
    spool.refuse(61_000, returned(1, "no space"));
    assert!(spool.is_seen(&jid(1)));
    assert_eq!(spool.take_unsent(), Some(jid(1)));
    assert_eq!(spool.in_memory(&jid(1)), Some(returned(1, "no space")));
    spool.done(&[jid(1)], None, 1);
    assert_eq!(spool.unacknowledged(), 0);
    drop(folder);
}

#[test]
fn a_damaged_spool_is_salvaged_and_kept() {
    let folder = Folder::new();
    let spool = folder.open();
    let mut ends = vec![folder.size() as usize];
    for number in 1..4 {
        spool.begin(&job(number)).unwrap();
        spool.finish(returned(number, &format!("return {number}")));
        ends.push(folder.size() as usize);
    }
    let first = spool.start();
    drop(spool);
    let whole = std::fs::read(folder.path()).unwrap();
    for at in [ends[1] + 2, ends[1] + 9, ends[1] + 20, ends[2] - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(folder.path(), &bytes).unwrap();
        let spool = folder.open();
        for number in [1, 3] {
            let expected = returned(number, &format!("return {number}"));
            assert_eq!(spool.read(&jid(number)).unwrap(), Some(expected), "{at}");
        }
        assert!(spool.start().power_lost, "records are missing");
        assert_ne!(spool.start().id, first.id);
        drop(spool);
        let spool = folder.open();
        assert!(spool.start().power_lost, "until it was told");
        spool.reconciled();
        assert!(
            spool.start().power_lost,
            "a master with an older store hears it"
        );
        drop(spool);
        assert!(
            !folder.open().start().power_lost,
            "the next start lost nothing"
        );
        let kept = std::fs::read_dir(folder.path().parent().unwrap()).unwrap();
        let kept = kept.filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
        assert!(kept.into_iter().any(|copy| copy == bytes), "a copy is kept");
    }
}

#[test]
fn a_damaged_last_record_or_marker_is_damage_and_no_torn_tail() {
    let folder = Folder::new();
    let spool = folder.open();
    spool.begin(&job(1)).unwrap();
    spool.finish(returned(1, "a"));
    drop(spool);
    let whole = std::fs::read(folder.path()).unwrap();
    for at in [10, whole.len() - 1, whole.len() - 20] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        std::fs::write(folder.path(), &bytes).unwrap();
        let spool = folder.open();
        assert!(spool.start().power_lost, "{at}");
        drop(spool);
        let kept = std::fs::read_dir(folder.path().parent().unwrap()).unwrap();
        let kept = kept.filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
        assert!(kept.into_iter().any(|copy| copy == bytes), "a copy is kept");
    }
}

#[test]
fn a_spool_of_another_version_is_refused_and_stays_as_it_is() {
    let folder = Folder::new();
    folder.open().begin(&job(1)).unwrap();
    let whole = std::fs::read(folder.path()).unwrap();
    for version in [b"saline/2", b"saline-2"] {
        let other = [&version[..], &whole[8..]].concat();
        std::fs::write(folder.path(), &other).unwrap();
        let error = Spool::open(folder.path(), false).unwrap_err().to_string();
        assert!(error.contains("or move it away"), "{error}");
        assert_eq!(std::fs::read(folder.path()).unwrap(), other);
    }
}

#[test]
fn what_a_job_prints_is_never_taken_for_a_record() {
    let folder = Folder::new();
    let spool = folder.open();
    let forged = {
        let other = Folder::new();
        let spool = other.open();
        spool.begin(&job(7)).unwrap();
        drop(spool);
        std::fs::read(other.path()).unwrap()
    };
    spool.begin(&job(1)).unwrap();
    let before = folder.size() as usize;
    let mut output = returned(1, "");
    output.payload = Packed::pack(&Value::Bytes(forged));
    spool.finish(output);
    spool.begin(&job(2)).unwrap();
    drop(spool);
    let mut bytes = std::fs::read(folder.path()).unwrap();
    bytes[before + 20] ^= 0xff;
    std::fs::write(folder.path(), bytes).unwrap();
    let spool = folder.open();
    assert!(spool.is_seen(&jid(2)));
    assert!(!spool.is_seen(&jid(7)));
}

#[test]
fn no_job_begins_whose_expiry_is_acknowledged() {
    let folder = Folder::new();
    let spool = folder.open();
    spool.begin(&job(1)).unwrap();
    spool.begin(&job(2)).unwrap();
    spool.finish(returned(2, "a"));
    spool.done(&[jid(2)], None, 1);
    let ack = spool.settle(1_000, 60_999, 1, 100);
    assert_eq!((ack.until, ack.begun), (60_999, Vec::new()));
    spool.begin(&job(3)).unwrap();
    let ack = spool.settle(1_000, 61_000, 1, 100);
    assert_eq!(
        ack.begun,
        [jid(1), jid(3)],
        "2 was delivered in this session"
    );
    assert!(matches!(spool.begin(&job(4)), Err(BeginError::Over)));
    let ack = spool.settle(1_000, 61_000, 2, 100);
    assert_eq!(ack.begun, [jid(1), jid(2), jid(3)], "but not in that one");
    let ack = spool.settle(1_000, 70_000, 2, 2);
    assert_eq!((ack.until, ack.begun), (60_999, Vec::new()), "all or none");
    assert_eq!(spool.settle(90_000, 80_000, 2, 2), ExpiryAck::default());
}

#[test]
fn a_barred_job_never_begins_and_a_begun_one_is_not_barred() {
    let folder = Folder::new();
    let spool = folder.open();
    spool.begin(&job(1)).unwrap();
    assert_eq!(spool.bar(&jid(1), 61_000), Known::Running);
    assert_eq!(spool.bar(&jid(2), 61_000), Known::Barred);
    drop(spool);
    let spool = folder.open();
    assert_eq!(spool.bar(&jid(2), 61_000), Known::Barred);
    assert!(matches!(spool.begin(&job(2)), Err(BeginError::Over)));
    assert_eq!(spool.unacknowledged(), 1, "a barred job returns nothing");
}

#[test]
fn a_refused_return_is_kept_and_sent_again_when_the_master_asks() {
    let folder = Folder::new();
    let spool = folder.open();
    spool.begin(&job(1)).unwrap();
    spool.finish(returned(1, "a"));
    spool.set_aside(&jid(1));
    for _ in 0..2 {
        assert_eq!(spool.take_unsent(), None);
        assert_eq!(spool.aside(), [jid(1)]);
        assert_eq!(spool.known(&jid(1)), Known::Finished);
        assert_eq!(spool.read(&jid(1)).unwrap(), Some(returned(1, "a")));
        spool.compact(&mut lock(&spool.file), None).unwrap();
    }
    drop(spool);
    let spool = folder.open();
    assert_eq!((spool.take_unsent(), spool.aside()), (None, vec![jid(1)]));
    spool.take_up(&jid(1));
    assert_eq!(spool.take_unsent(), Some(jid(1)));
    assert!(!spool.forget_refused(&jid(1)).unwrap(), "it is sent again");
    spool.set_aside(&jid(1));
    assert!(spool.forget_refused(&jid(1)).unwrap());
    drop(spool);
    let spool = folder.open();
    assert_eq!((spool.take_unsent(), spool.aside()), (None, Vec::new()));
    assert!(spool.is_seen(&jid(1)));
}

#[tokio::test(start_paused = true)]
async fn a_compaction_for_which_there_is_no_room_leaves_nothing_and_is_not_tried_again_at_once() {
    let folder = Folder::new();
    let spool = folder.open();
    for number in 1..400 {
        spool.begin(&job(number)).unwrap();
        spool.finish(returned(number, &"x".repeat(300)));
    }
    let (grown, new) = (folder.size(), folder.path().with_extension("new"));
    assert!(lock(&spool.file).has_grown());
    let no_room = |_: &mut SpoolFile, new: &mut SpoolFile| {
        new.append(&Record::Stopped, false)?;
        Err(io::ErrorKind::StorageFull.into())
    };
    lock(&spool.file).rewrite(no_room).unwrap_err();
    assert!(!new.exists());
    Clock
        .pause(COMPACTED_AGAIN - Duration::from_millis(1))
        .await;
    let all: Vec<_> = (1..400).map(jid).collect();
    spool.done(&all, None, 1);
    assert!(folder.size() > grown);
    Clock.pause(Duration::from_millis(1)).await;
    spool.note_heartbeat(None);
    assert!(folder.size() < grown / 2, "{}", folder.size());
}

#[test]
fn a_start_is_known_to_the_next_one() {
    let folder = Folder::new();
    let first = folder.open();
    assert_eq!(first.start().predecessors, []);
    first.reconciled();
    let id = first.start().id;
    first.compact(&mut lock(&first.file), None).unwrap();
    drop(first);
    for number in 1..3 {
        let start = folder.open().start();
        assert_eq!(start.predecessors[0], id);
        assert_eq!(start.predecessors.len(), number);
        assert!(start.predecessor_ended && !start.power_lost && !start.reconciled);
    }
}

#[test]
fn an_older_spool_shows_by_the_heartbeats_that_it_noted() {
    let folder = Folder::new();
    let spool = folder.open();
    spool.note_heartbeat(None);
    let copy = std::fs::read(folder.path()).unwrap();
    spool.note_heartbeat(None);
    assert_eq!(spool.heartbeats_noted(), 2);
    spool.compact(&mut lock(&spool.file), None).unwrap();
    drop(spool);
    assert_eq!(folder.open().heartbeats_noted(), 2);
    std::fs::write(folder.path(), copy).unwrap();
    assert_eq!(folder.open().heartbeats_noted(), 1);

    // A minion that runs no job notes heartbeats for ever.
    let spool = folder.open();
    for _ in 0..20_000 {
        spool.note_heartbeat(None);
    }
    assert!(folder.size() < 200_000, "{}", folder.size());
    // One that ends while the minion stops is no sign of a loss of power.
    let mut read = StartsRead::default();
    read.take(&spool.start_record());
    read.take(&Record::Stopped);
    read.take(&Record::Heartbeat);
    let place = SpoolLocation::named("another", 1);
    let id = StartId([9; 16]);
    assert!(!read.next(id, &place, false, false).power_lost);
}

#[test]
fn a_start_without_its_spool_follows_the_one_that_is_noted_beside_the_identity() {
    let folder = Folder::new();
    let identity = folder.0.path().join("pki");
    let open = || Spool::open_beside(folder.path(), false, &identity, &BTreeSet::new()).unwrap();
    let first = open();
    let (noted, id) = (first.start(), first.start().id);
    assert!(noted.predecessors.is_empty() && !noted.power_lost);
    first.reconciled();
    drop(first);
    let again = open().start();
    assert_eq!(again.predecessors, [id]);
    assert!(!again.power_lost, "the spool is whole");

    // Somebody emptied the folder: the inode of a new one may be any.
    let old = std::fs::read(folder.path()).unwrap();
    std::fs::remove_dir_all(folder.path().parent().unwrap()).unwrap();
    let emptied = open().start();
    assert_eq!(emptied.predecessors, [id, again.id]);
    assert!(emptied.predecessor_ended && emptied.power_lost);

    // Put back from a copy: it knows nothing of the last start.
    std::fs::write(folder.path(), old).unwrap();
    let restored = open();
    let start = restored.start();
    assert_eq!(start.predecessors, [id, again.id, emptied.id]);
    assert!(start.predecessor_ended && start.power_lost);
    restored.reconciled();

    // One that uses the same identity at the same time has proof of nothing.
    let other = folder.0.path().join("other/spool.log");
    let beside = Spool::open_beside(other.clone(), false, &identity, &BTreeSet::new()).unwrap();
    assert_eq!(beside.start().predecessors, []);
    drop((restored, beside));
    // Neither has a copy of the machine, where the folder is another one.
    let copied = folder.0.path().join("copied");
    std::fs::create_dir(&copied).unwrap();
    std::fs::copy(identity.join("last_start"), copied.join("last_start")).unwrap();
    std::fs::remove_file(&other).unwrap();
    let copy = Spool::open_beside(other, false, &copied, &BTreeSet::new())
        .unwrap()
        .start();
    assert_eq!(copy.predecessors, []);
    assert!(!copy.predecessor_ended);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_open(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let folder = Folder::new();
        std::fs::create_dir_all(folder.path().parent().unwrap()).unwrap();
        std::fs::write(folder.path(), bytes).unwrap();
        let spool = folder.open();
        spool.begin(&job(1)).unwrap();
        drop(spool);
        prop_assert!(folder.open().is_seen(&jid(1)));
    }

    /// Whatever is done in whatever order, with restarts between: a model says what must stand.
    #[test]
    fn it_agrees_with_a_model(steps in proptest::collection::vec((0u8..5, 0u64..6), 0..60)) {
        let folder = Folder::new();
        let mut spool = folder.open();
        let mut model: BTreeMap<u64, Option<bool>> = BTreeMap::new();
        for (step, number) in steps {
            match step {
                0 => {
                    let fresh = !model.contains_key(&number);
                    prop_assert_eq!(spool.begin(&job(number)).is_ok(), fresh);
                    model.entry(number).or_insert(None);
                }
                1 if model.get(&number) == Some(&None) => {
                    spool.finish(returned(number, &"x".repeat(9000)));
                    model.insert(number, Some(false));
                }
                2 if model.get(&number) == Some(&Some(false)) => {
                    spool.done(&[jid(number)], None, 1);
                    model.insert(number, Some(true));
                }
                3 => {
                    drop(spool);
                    spool = folder.open();
                    for state in model.values_mut() {
                        *state = Some(state.unwrap_or(false));
                    }
                }
                _ => {}
            }
            for (number, state) in &model {
                prop_assert!(spool.is_seen(&jid(*number)));
                prop_assert_eq!(spool.read(&jid(*number)).unwrap().is_some(), *state == Some(false));
            }
        }
    }
}

#[test]
fn a_spool_is_private_and_no_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    folder.open().begin(&job(1)).unwrap();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let inside = folder.path().parent().unwrap().to_owned();
    assert_eq!((mode(&folder.path()), mode(&inside)), (0o600, 0o700));

    let elsewhere = folder.0.path().join("elsewhere");
    std::fs::rename(folder.path(), &elsewhere).unwrap();
    symlink(&elsewhere, folder.path()).unwrap();
    let error = Spool::open(folder.path(), false).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");

    std::fs::remove_file(folder.path()).unwrap();
    std::fs::set_permissions(&inside, PermissionsExt::from_mode(0o777)).unwrap();
    let error = Spool::open(folder.path(), false).unwrap_err().to_string();
    assert!(error.contains("chmod go-w"), "{error}");
}

#[test]
fn what_may_have_been_interrupted_begins_like_what_was() {
    assert!(INTERRUPTED_OR_LOST.starts_with(INTERRUPTED));
}
