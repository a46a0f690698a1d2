//! What identifies something: endpoints, tags of events, fingerprints, ids, topics.

use std::path::{Component, Path};

use saline_channel::PublicIdentity;
use saline_messages::{Event, EventTag, Jid, MinionId, decode, encode};
use saline_protocol::transport::{
    HostPort, MAX_TOPIC_BYTES, MAX_TOPIC_SEGMENTS, Topic, TopicFilter,
};

/// Returns the text that the bytes are; targets of texts have nothing to do with others.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

pub(crate) fn endpoints(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let Ok(parsed) = HostPort::parse(text, 4506) else {
        return;
    };
    let shown = parsed.to_string();
    assert_eq!(
        HostPort::parse(&shown, 1).as_ref().ok(),
        Some(&parsed),
        "{shown:?}"
    );
    assert!(!parsed.host.is_empty() && !parsed.host.contains('/'));
    let _ = parsed.as_socket_address();
}

pub(crate) fn endpoint_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "salt",
        "salt:4507",
        "192.0.2.1:1",
        "[::1]:2",
        "[::1]",
        "2001:db8::1",
        "::ffff:192.0.2.1",
        ":1",
        "a:b",
        "[::1",
    ])
}

pub(crate) fn event_tags(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Some(tag) = EventTag::parse(text) {
        assert_eq!(tag.to_string(), text);
    }
    if let Ok(topic) = Event::topic(text) {
        assert_eq!(topic.as_str().strip_prefix("event/"), Some(text));
    }
}

pub(crate) fn event_tag_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "salt/auth",
        "salt/key",
        "salt/presence/change",
        "salt/presence/present",
        "salt/presence/duplicate",
        "salt/job/20261121091409931549/new",
        "salt/job/20261121091409931549/ret/m1",
        "salt/job/20261121091409931549/start/m1",
        "salt/job/20261121091409931549/declined/m1",
        "salt/job/20261121091409931549/expired/m1",
        "salt/job/20261121091409931549/state/m1",
        "salt/job/20261121091409931549/gone/m1",
        "salt/minion/web1.example.com/disk/full",
    ])
}

const IDENTITY: PublicIdentity = PublicIdentity([7; 32]);

pub(crate) fn fingerprints(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if IDENTITY.has_fingerprint(text) {
        // All of it, and nothing else but colons and space around it.
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        assert_eq!(digits.len(), 64);
        let expected = IDENTITY.fingerprint().replace(':', "");
        assert_eq!(digits.to_ascii_lowercase(), expected);
        let others = text.chars().filter(|c| !c.is_ascii_hexdigit());
        assert!(others.clone().all(|c| c == ':' || c.is_whitespace()));
    }
}

pub(crate) fn fingerprint_seeds() -> Vec<Vec<u8>> {
    let fingerprint = IDENTITY.fingerprint();
    texts(&[
        &fingerprint,
        &fingerprint.to_uppercase(),
        &fingerprint.replace(':', ""),
        &format!(" {fingerprint}\n"),
        &fingerprint[..60],
        "00:11",
        "",
    ])
}

pub(crate) fn ids(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let encoded = encode(&text);
    let id = MinionId::parse(text).ok();
    assert_eq!(decode::<MinionId>(&encoded).ok(), id, "decoding checks too");
    if let Some(id) = id {
        assert_eq!(id.as_str(), text);
        // It names a file in a folder of keys, and nothing else.
        let parts: Vec<Component<'_>> = Path::new(text).components().collect();
        assert!(matches!(parts[..], [Component::Normal(name)] if name == text));
        assert!(text.len() <= 255 && !text.contains(['\0', '/', '\\']));
    }
    let jid = Jid::parse(text).ok();
    assert_eq!(decode::<Jid>(&encoded).ok(), jid, "decoding checks too");
    if let Some(jid) = jid {
        assert_eq!(jid.as_str(), text);
        assert!(text.len() == 20 && text.bytes().all(|byte| byte.is_ascii_digit()));
    }
}

pub(crate) fn id_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "m1",
        "web-1.example.com",
        "A_b",
        "..",
        "../x",
        "a/b",
        "-x",
        "a\0b",
        "ä",
        "20261121091409931549",
        "2026112109140993154x",
        &"x".repeat(255),
        &"x".repeat(256),
    ])
}

pub(crate) fn topics(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let (first, second) = text.split_once('\n').unwrap_or((text, "a/b"));
    let (Ok(topic), Ok(other)) = (Topic::parse(first), Topic::parse(second)) else {
        return;
    };
    for topic in [&topic, &other] {
        assert!(topic.as_str().len() <= MAX_TOPIC_BYTES);
        assert!((1..=MAX_TOPIC_SEGMENTS).contains(&topic.segments().count()));
        assert!(topic.segments().all(|segment| !segment.is_empty()));
    }
    let whole: Vec<&str> = topic.segments().collect();
    let begun: Vec<&str> = other.segments().collect();
    assert_eq!(
        TopicFilter::Prefix(other.clone()).matches(&topic),
        whole.starts_with(&begun)
    );
    let exact = TopicFilter::Exact(other.clone());
    assert_eq!(exact.matches(&topic), whole == begun);
}

pub(crate) fn topic_seeds() -> Vec<Vec<u8>> {
    texts(&[
        "job/all",
        "a/b/c\na/b",
        "a/bc\na/b",
        "1/2/3/4/5/6/7/8\n1",
        "1/2/3/4/5/6/7/8/9",
        "a//b",
        "/a",
        "a b",
        "",
    ])
}
