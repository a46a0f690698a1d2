//! Pillars about as large as one may be.

use super::*;

/// The files of a large pillar, each of which has one text.
const FILES: usize = 17;

/// Writes a pillar whose encoded form has this many bytes.
fn write(scene: &Scene, bytes: usize) {
    let length = bytes / FILES - 100;
    let mut entries: Vec<(String, Value)> = (0..FILES)
        .map(|file| (format!("f{file}"), Value::from("x".repeat(length))))
        .collect();
    let encoded = |entries: &[(String, Value)]| {
        let sent = MinionPillar {
            entries: Some(Packed::pack(&Value::Map(entries.to_vec()))),
            errors: Vec::new(),
        };
        sent.to_bytes().len()
    };
    let missing = bytes - encoded(&entries);
    entries[0].1 = Value::from("x".repeat(length + missing));
    assert_eq!(encoded(&entries), bytes);
    let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(", ");
    scene.write("top.sls", &format!("base: {{'*': [{names}]}}\n"));
    for (name, text) in &entries {
        let text = text.as_str().unwrap();
        scene.write(&format!("{name}.sls"), &format!("{name}: {text}\n"));
    }
}

#[tokio::test]
async fn the_bound_is_that_of_what_is_sent_with_its_errors() {
    const PART: u32 = 256 * 1024;
    let scene = Scene::new(|_| {}).await;
    write(&scene, MAX_PILLAR);
    let (entries, errors) = scene.pillar_in_parts("web1", PART).await;
    assert_eq!(errors, [""; 0]);
    assert!(entries.is_some());

    // The last good one has no room beside an error: the minion keeps it.
    scene.write("f1.sls", "f1: {{ nothing }}\n");
    let (entries, errors) = scene.pillar_in_parts("web1", PART).await;
    assert!(
        errors.len() == 1 && errors[0].contains("is undefined"),
        "{errors:?}"
    );
    assert_eq!(entries, None);

    write(&scene, MAX_PILLAR + 1);
    let (_, errors) = scene.pillar_in_parts("web1", PART).await;
    let expected = "the pillar has 16777217 bytes, and a pillar may have 16777216: move large values into files that \
                    minions fetch (file_roots)";
    assert_eq!(errors, [expected]);
    let asked = AskedEnvironments::default();
    let shown = scene.pillars.compile(&id("web1"), &asked).await.unwrap();
    assert_eq!(shown.errors, [expected]);
}
