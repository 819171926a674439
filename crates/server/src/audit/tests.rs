//! The audit log: its lines, its bounded files, and repeated events.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::rate_limiter::{KEYS, PERIOD};
use super::*;

fn event(kind: AuditKind, uid: u32, object: &str) -> AuditEvent {
    AuditEvent {
        kind,
        reason: "permission",
        uid: Some(uid),
        client: "thief".to_owned(),
        object: object.to_owned(),
        outcome: "may not".to_owned(),
    }
}

fn lines(path: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_line_is_json_and_only_the_user_of_the_node_can_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    fs::write(&path, "{}\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let audit = AuditLog::open(dir.path(), "a", WallClock::system()).unwrap();
    audit.note(event(AuditKind::Rights, 1000, "/f \"\n\u{7}"));
    audit.note_failure(Some(7), "c", &Failure::Revoked { file: pario_proto::FileId(9) });
    audit.note_failure(Some(7), "c", &Failure::GrantExpired { file: pario_proto::FileId(9) });
    audit.note(event(AuditKind::Administration, 0, &"x".repeat(10_000)));
    audit.close();
    audit.note(event(AuditKind::Rights, 1000, "too late"));
    let lines = lines(&path);
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!((&lines[1]["kind"], &lines[1]["user"]), (&"rights".into(), &1000.into()));
    assert_eq!((&lines[1]["node"], &lines[1]["object"]), (&"a".into(), &"/f \"\n\u{7}".into()));
    assert_eq!((&lines[1]["count"], lines[1].get("lost")), (&1.into(), None));
    assert!(lines[1]["time"].as_str().unwrap().ends_with('Z'));
    assert_eq!(lines[2]["kind"], "refused");
    assert_eq!(lines[3]["object"].as_str().unwrap().len(), TEXT_LIMIT);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // The log does not follow a symbolic link.
    fs::rename(&path, dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
    assert!(AuditLog::open(dir.path(), "a", WallClock::system()).is_err());
}

#[test]
fn the_log_has_two_files_of_bounded_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let before = dir.path().join("audit.log.1");
    let mut file = LogFile::open(&path, 1000).unwrap();
    for number in 0..200 {
        file.append(format!("{number:099}\n").as_bytes()).unwrap();
        assert!(fs::metadata(&path).unwrap().len() <= 1000);
        assert_eq!(before.exists(), number >= 10);
    }
    assert_eq!(fs::metadata(&before).unwrap().len(), 1000);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    // After a restart the old content counts.
    let mut file = LogFile::open(&path, 1000).unwrap();
    file.append(b"next\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "next\n");
    assert_eq!(fs::metadata(&before).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn equal_refusals_are_counted_and_others_pass() {
    let mut now = Instant::now();
    let mut limiter = RateLimiter::default();
    let refused = |uid| event(AuditKind::Refused, uid, "/f");
    assert_eq!(limiter.take(refused(1), now).map(|(_, count)| count), Some(1));
    for _ in 0..10_000 {
        assert_eq!(limiter.take(refused(1), now), None);
    }
    assert!(limiter.take(refused(2), now).is_some(), "this is another user");
    let other = AuditEvent { reason: "revoked", ..refused(1) };
    assert!(limiter.take(other, now).is_some(), "this is another reason");
    assert_eq!(limiter.due(now), []);
    now += PERIOD;
    assert_eq!(limiter.due(now), [(refused(1), 10_000)]);
    assert_eq!(limiter.take(refused(1), now), None, "one line per second");
    now += PERIOD;
    assert_eq!(limiter.take(refused(1), now).map(|(_, count)| count), Some(2));
    now += PERIOD * 2;
    assert_eq!(limiter.due(now), []);
    assert!(limiter.keys.is_empty(), "a key without events is forgotten");
    for _ in 0..64 {
        assert!(limiter.take(event(AuditKind::Rights, 1, "/f"), now).is_some());
    }
    assert_eq!(limiter.take(event(AuditKind::Rights, 1, "/f"), now), None);
    assert_eq!(limiter.rest().count(), 1);
}

/// A flood of more users than there are keys writes few lines and takes little memory.
#[test]
fn a_flood_fills_neither_memory_nor_the_log() {
    let mut now = Instant::now();
    let mut limiter = RateLimiter::default();
    let mut written = 0;
    for second in 0..20u32 {
        for number in 0..10_000u32 {
            let uid = second * 10_000 + number;
            written += u64::from(limiter.take(event(AuditKind::Refused, uid, "/f"), now).is_some());
            assert!(limiter.keys.len() <= KEYS + 3);
        }
        now += PERIOD;
        written += limiter.due(now).len() as u64;
    }
    assert!(written < 20 * (KEYS as u64 + 4), "{written} lines");
}

/// While the writer is stuck, events are lost and counted; the next line reports the count.
#[test]
fn a_full_queue_loses_events_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = LogFile::open(&dir.path().join("audit.log"), FILE_LIMIT_BYTES).unwrap();
    let (queue, events) = sync_channel(3);
    let lost = Arc::new(AtomicU64::new(0));
    let audit = AuditLog { queue: Some(queue), lost: lost.clone(), writer: Mutex::default() };
    for uid in 0..10 {
        audit.note(event(AuditKind::Refused, uid, "/f"));
    }
    assert_eq!(lost.load(Ordering::Relaxed), 7);
    drop(audit);
    AuditWriter { node: "a".to_owned(), file, lost, clock: WallClock::system() }.run(&events);
    let lines = lines(&dir.path().join("audit.log"));
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["lost"], lines[1].get("lost")), (&7.into(), None));
}
