//! Uploads, from their beginning to their end.

use std::path::Path;

use super::*;

/// Hands in a file of one part.
async fn upload(
    served: &Served,
    owner: &str,
    id: UploadId,
    number: u32,
    bytes: &[u8],
) -> Result<u64, String> {
    let part = Part {
        transfer: TransferId::of(bytes),
        total: bytes.len() as u64,
        offset: 0,
        bytes: bytes.to_vec().into(),
    };
    let taken = served.files.take_upload(owner, id, number, part).await;
    taken.map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_upload_is_read_by_who_knows_its_id_until_it_is_removed() {
    let served = Served::new();
    let upload_id = UploadId::random().unwrap();
    let look = async |path: String| {
        let place = FilePlace {
            environment: UPLOADS_ENVIRONMENT.to_owned(),
            path,
        };
        served.ask("m1", FileRequest::Look(place)).await
    };
    let begin = async |owner: &str, files, bytes| {
        let begun = served
            .files
            .begin_upload(owner.to_owned(), upload_id, files, bytes);
        begun.await.map_err(|error| error.to_string())
    };
    assert_eq!(begin("root", 2, 10).await, Ok(()));
    assert_eq!(
        upload(&served, "root", upload_id, 0, b"secret").await,
        Ok(6)
    );
    assert_eq!(upload(&served, "root", upload_id, 1, b"").await, Ok(0));
    let first = format!("{}/0", upload_id.to_text());
    let MinionReply::Files(FileReply::Seen(seen)) = look(first.clone()).await else {
        panic!("it is not there");
    };
    assert_eq!(seen.transfer, TransferId::of(b"secret"));
    let other = UploadId::random().unwrap().to_text();
    for none in [
        format!("{other}/0"),
        format!("{}/2", upload_id.to_text()),
        upload_id.to_text(),
        format!("{}/../{}/0", upload_id.to_text(), upload_id.to_text()),
        format!("{}/0/", upload_id.to_text()),
        "0".to_owned(),
    ] {
        assert_eq!(
            look(none.clone()).await,
            refused(FileRefusal::NoFile),
            "{none}"
        );
    }
    let list = FileRequest::List {
        environment: UPLOADS_ENVIRONMENT.to_owned(),
        below: String::new(),
        after: None,
        bytes: 1000,
    };
    let listed = served.ask("m1", list).await;
    assert_eq!(listed, refused(FileRefusal::NoEnvironment));

    // Beginning it again changes nothing, and it is nobody else's.
    assert_eq!(begin("root", 2, 10).await, Ok(()));
    assert!(begin("ann", 2, 10).await.is_err());
    assert!(
        upload(&served, "ann", upload_id, 0, b"other")
            .await
            .is_err()
    );
    assert!(served.files.end_upload("ann", upload_id).await.is_err());
    served.files.end_upload("root", upload_id).await.unwrap();
    assert_eq!(look(first).await, refused(FileRefusal::NoFile));
    served.files.end_upload("root", upload_id).await.unwrap();
    let late = upload(&served, "root", upload_id, 0, b"secret").await;
    assert!(late.unwrap_err().contains("does not know this upload"));
}

#[tokio::test]
async fn an_upload_has_no_more_than_it_announced_and_all_have_a_bound() {
    let served = Served::new();
    let upload_id = UploadId::random().unwrap();
    let begin = async |id, files, bytes| {
        let begun = served
            .files
            .begin_upload("root".to_owned(), id, files, bytes);
        begun.await.map_err(|error| error.to_string())
    };
    begin(upload_id, 2, 10).await.unwrap();
    for (number, bytes) in [(2, &b"x"[..]), (0, b"12345678901")] {
        let taken = upload(&served, "root", upload_id, number, bytes).await;
        assert!(taken.unwrap_err().contains("not those that were announced"));
    }
    assert_eq!(
        upload(&served, "root", upload_id, 0, b"123456").await,
        Ok(6)
    );
    assert!(
        upload(&served, "root", upload_id, 1, b"12345")
            .await
            .is_err()
    );
    assert_eq!(upload(&served, "root", upload_id, 1, b"1234").await, Ok(4));
    let too_many = begin(UploadId::random().unwrap(), 1001, 0).await;
    assert!(too_many.unwrap_err().contains("at most 1000 files"));
    let most = 8 << 30;
    let too_large = begin(UploadId::random().unwrap(), 1, most - 9).await;
    assert!(too_large.unwrap_err().contains("no room"));
    let large = UploadId::random().unwrap();
    begin(large, 1, most - 10).await.unwrap();
    assert!(begin(UploadId::random().unwrap(), 1, 1).await.is_err());
    served.files.end_upload("root", large).await.unwrap();
    begin(UploadId::random().unwrap(), 1, 1).await.unwrap();
}

#[tokio::test]
async fn uploads_that_nobody_removes_go_after_a_day() {
    let served = Served::new();
    let uploads = served.folder.path().join("cache/uploads");
    let [old, new] = [(); 2].map(|()| uploads.join(UploadId::random().unwrap().to_text()));
    for folder in [&old, &new] {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("0"), "secret").unwrap();
    }
    let yesterday = Clock.wall() - Duration::from_secs(25 * 60 * 60);
    let folder = std::fs::File::open(&old).unwrap();
    folder.set_modified(yesterday).unwrap();
    std::fs::create_dir(uploads.join("other")).unwrap();
    served.files.remove_expired_uploads().await;
    assert!(!old.exists() && new.exists() && uploads.join("other").exists());
}

#[tokio::test(start_paused = true)]
async fn an_upload_of_which_nothing_comes_gives_its_room_back() {
    let served = Served::new();
    let begin = async |id, bytes| {
        let begun = served.files.begin_upload("root".to_owned(), id, 1, bytes);
        begun.await.map_err(|error| error.to_string())
    };
    let [silent, used, next] = [(); 3].map(|()| UploadId::random().unwrap());
    begin(silent, 8 << 30).await.unwrap();
    tokio::time::advance(Duration::from_secs(3500)).await;
    assert!(begin(used, 1).await.unwrap_err().contains("no room"));
    tokio::time::advance(Duration::from_secs(101)).await;
    begin(used, 8 << 30).await.unwrap();
    let late = upload(&served, "root", silent, 0, b"x").await;
    assert!(late.unwrap_err().contains("does not know this upload"));

    // One of which something came keeps its room.
    upload(&served, "root", used, 0, b"x").await.unwrap();
    tokio::time::advance(Duration::from_secs(3601)).await;
    assert!(begin(next, 1).await.unwrap_err().contains("no room"));
}

/// Returns the bytes of all files of a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

#[tokio::test]
async fn a_file_of_an_upload_that_begins_anew_takes_the_place_of_what_was_there() {
    let served = Served::new();
    let id = UploadId::random().unwrap();
    let begun = served.files.begin_upload("root".to_owned(), id, 2, 20);
    begun.await.unwrap();
    let send = async |number, whole: &[u8; 10], from: usize, to: usize| {
        let part = Part {
            transfer: TransferId::of(whole),
            total: 10,
            offset: from as u64,
            bytes: whole[from..to].to_vec().into(),
        };
        let taken = served.files.take_upload("root", id, number, part).await;
        taken.map_err(|error| error.to_string())
    };
    let folder = served
        .folder
        .path()
        .join("cache/uploads")
        .join(id.to_text());
    assert_eq!(send(1, &[9; 10], 0, 10).await, Ok(10));
    for byte in 0..5 {
        assert_eq!(send(0, &[byte; 10], 0, 9).await, Ok(9));
        assert_eq!(bytes_in(&folder), 19);
    }
    // A late part of an earlier one neither counts nor removes anything.
    assert_eq!(send(0, &[0; 10], 9, 10).await, Ok(0));
    assert_eq!(bytes_in(&folder), 19);
    assert_eq!(send(0, &[0; 10], 0, 10).await, Ok(10));
    assert_eq!(bytes_in(&folder), 20);
    // Also those of one that was complete.
    assert_eq!(send(0, &[5; 10], 0, 9).await, Ok(9));
    assert_eq!(bytes_in(&folder), 19);
    assert_eq!(send(0, &[5; 10], 9, 10).await, Ok(10));
    assert_eq!(std::fs::read(folder.join("0")).unwrap(), [5; 10]);
    assert_eq!(std::fs::read(folder.join("1")).unwrap(), [9; 10]);
    // One that is shorter than it was announced before has nothing on the disk for which it does not count.
    let none = Part {
        transfer: TransferId::of(&[9; 10]),
        total: 0,
        offset: 0,
        bytes: Vec::new().into(),
    };
    let taken = served.files.take_upload("root", id, 1, none).await;
    assert_eq!(taken.unwrap(), 0);
    assert_eq!(bytes_in(&folder), 10);
}
