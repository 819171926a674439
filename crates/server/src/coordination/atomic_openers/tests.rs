//! The rules of delegations and claims, one by one.

use super::*;

const FILE: FileId = FileId(7);
const DELEGATED: Result<AtomicOutcome, OpenerRefusal> =
    Ok(AtomicOutcome::Delegated { delegation: 0 });
const AT_HOME: Result<AtomicOutcome, OpenerRefusal> = Ok(AtomicOutcome::AtHome);
const RECALLED: Result<AtomicOutcome, OpenerRefusal> = Ok(AtomicOutcome::Recalled);
const DONE: Result<AtomicOutcome, OpenerRefusal> = Ok(AtomicOutcome::Done);
const UNKNOWN: Result<AtomicOutcome, OpenerRefusal> = Err(OpenerRefusal::Unknown);
const RESET: Result<AtomicOutcome, OpenerRefusal> = Err(OpenerRefusal::Reset);

fn id(process: u8) -> OpenerId {
    OpenerId { space: SpaceId::from_bytes([process; 16]), number: 1 }
}

fn opener(process: u8, shared_file: Option<u128>) -> NewOpener {
    let path = FilePath::new("/log").unwrap();
    NewOpener { id: id(process), uid: 0, path, shared_file: shared_file.map(SharedFileId) }
}

fn write(from: u64, len: u64) -> BytesUse {
    BytesUse::new(from, len, true)
}

#[test]
fn a_process_that_is_alone_gets_the_delegation_with_its_open_and_with_each_claim() {
    let mut home = AtomicOpeners::default();
    assert_eq!(home.open(FILE, opener(1, None), "open", 0), [("open", DELEGATED)]);
    assert_eq!(home.claim(FILE, id(1), (0, write(0, 9)), "claim", 5_000), [("claim", DELEGATED)]);
    assert_eq!(home.next_expiry_ms(), None, "no caller waits for it");
    assert_eq!(home.count_of(id(1).space), 1);
    assert_eq!(home.close(FILE, id(1), "close", 6_000), [("close", DONE)]);
    assert_eq!(home.claim(FILE, id(1), (1, write(0, 9)), "late", 6_000), [("late", UNKNOWN)]);
    assert!(home.is_empty());
}

#[test]
fn a_second_process_waits_until_the_first_has_given_its_delegation_back() {
    let mut home = AtomicOpeners::default();
    home.open(FILE, opener(1, None), "open 1", 0);
    assert_eq!(home.await_recall(FILE, id(1), 0, "recall"), []);
    assert_eq!(home.open(FILE, opener(2, None), "open 2", 100), [("recall", RECALLED)]);
    let waits = home.waits(300);
    let wait = &waits[0];
    assert_eq!((waits.len(), wait.space, wait.is_recall), (1, id(2).space, true));
    assert_eq!((&wait.holders[..], wait.bytes, wait.since_ms), (&[id(1).space][..], None, 100));
    // One access is under way.
    let given = (0, vec![(5, write(10, 10))]);
    let answers = home.give_back(FILE, id(1), given, "back", 200);
    assert_eq!(answers, [("back", DONE), ("open 2", AT_HOME)]);
    assert_eq!(home.claim(FILE, id(2), (0, write(0, 15)), "claim", 300), []);
    let wait = &home.waits(300)[0];
    assert_eq!((wait.is_recall, wait.bytes), (false, Some(write(0, 15))));
    assert_eq!(wait.holders, [id(1).space]);
    assert_eq!(home.claim(FILE, id(1), (6, write(20, 9)), "other", 300), [("other", AT_HOME)]);
    let answers = home.release(FILE, id(1), 5, "release", 400);
    assert_eq!(answers, [("release", DONE), ("claim", AT_HOME)]);
    // Alone again.
    home.close(FILE, id(2), "close", 500);
    let delegated = Ok(AtomicOutcome::Delegated { delegation: 1 });
    assert_eq!(home.claim(FILE, id(1), (7, write(0, 1)), "again", 500), [("again", delegated)]);
    assert_eq!(home.await_recall(FILE, id(1), 0, "old"), [("old", RECALLED)]);
    assert_eq!(home.await_recall(FILE, id(1), 1, "new"), []);
}

#[test]
fn a_process_that_does_not_answer_delays_another_one_by_a_lease() {
    let mut home = AtomicOpeners::default();
    home.open(FILE, opener(1, None), "open 1", 0);
    assert_eq!(home.open(FILE, opener(2, None), "open 2", 500), []);
    let end = 500 + DELEGATION_LEASE_MS;
    assert_eq!(home.next_expiry_ms(), Some(end));
    assert_eq!(home.expire(end - 1), []);
    assert_eq!(home.expire(end), [("open 2", AT_HOME)]);
    // The first process goes on later, in the middle of an access.
    assert_eq!(home.await_recall(FILE, id(1), 0, "late"), [("late", RECALLED)]);
    home.give_back(FILE, id(1), (0, vec![(3, write(0, 10))]), "back", 9_000);
    assert_eq!(home.claim(FILE, id(2), (0, write(0, 1)), "claim", 9_000), []);
}

#[test]
fn a_process_that_is_lost_delays_no_other() {
    let mut home = AtomicOpeners::default();
    home.open(FILE, opener(1, None), "open 1", 0);
    home.open(FILE, opener(2, None), "open 2", 0);
    assert_eq!(home.lose(id(1).space, 1), [("open 2", DELEGATED)]);
    home.open(FILE, opener(3, None), "open 3", 1);
    home.give_back(FILE, id(2), (0, Vec::new()), "back", 2);
    home.claim(FILE, id(3), (0, write(0, 10)), "claim 3", 3);
    assert_eq!(home.claim(FILE, id(2), (0, write(0, 10)), "claim 2", 3), []);
    assert_eq!(home.lose(id(3).space, 4), [("claim 2", AT_HOME)]);
    assert_eq!(home.lose(id(2).space, 4), []);
    assert!(home.is_empty());
}

#[test]
fn openers_that_are_reset_lose_their_claims_and_learn_it() {
    let mut home = AtomicOpeners::default();
    home.open(FILE, opener(1, None), "open 1", 0);
    home.open(FILE, opener(2, None), "open 2", 0);
    home.give_back(FILE, id(1), (0, vec![(3, write(0, 10))]), "back", 0);
    assert_eq!(home.claim(FILE, id(2), (0, write(5, 10)), "claim 2", 1), []);
    let none = home.reset(Some(7), &[], 2);
    assert!(none.0.is_empty() && none.1.is_empty(), "the openers of another user");
    let other = [FilePath::new("/other").unwrap()];
    assert!(home.reset(None, &other, 2).0.is_empty());
    let log = [FilePath::new("/log").unwrap()];
    let (paths, answers) = home.reset(Some(0), &log, 2);
    assert_eq!((paths.len(), answers), (1, vec![("claim 2", RESET)]));
    for process in [1, 2] {
        let claim = home.claim(FILE, id(process), (9, write(0, 1)), "later", 3);
        assert_eq!(claim, [("later", RESET)]);
        assert_eq!(home.open(FILE, opener(process, None), "again", 3), [("again", RESET)]);
    }
    // A late report of the accesses under way claims nothing.
    home.give_back(FILE, id(1), (0, vec![(3, write(0, 10))]), "back", 3);
    assert_eq!(home.open(FILE, opener(3, None), "open 3", 4), [("open 3", DELEGATED)]);
    assert!(home.reset(None, &log, 5).0.len() == 1, "only the third one is left");
    for process in [1, 2, 3] {
        assert_eq!(home.close(FILE, id(process), "close", 6), [("close", DONE)]);
    }
    assert!(home.is_empty());
}

#[test]
fn a_delegation_that_is_reset_delays_others_until_its_process_knows_it() {
    let mut home = AtomicOpeners::default();
    for (process, closes) in [(1, true), (2, false)] {
        home.open(FILE, opener(process, None), "open", 0);
        home.await_recall(FILE, id(process), 0, "recall");
        assert_eq!(home.reset(None, &[], 100).1, [("recall", RESET)]);
        let next = opener(process + 10, None);
        assert_eq!(home.open(FILE, next, "next", 200), []);
        match closes {
            true => {
                let answers = home.close(FILE, id(process), "close", 300);
                assert_eq!(answers, [("next", DELEGATED), ("close", DONE)]);
            }
            false => {
                let end = 100 + DELEGATION_LEASE_MS;
                assert_eq!(home.expire(end - 1), []);
                assert_eq!(home.expire(end), [("next", DELEGATED)]);
            }
        }
        home.close(FILE, id(process + 10), "close", 400);
    }
}

#[test]
fn the_ranks_of_a_shared_file_are_one_group() {
    let mut home = AtomicOpeners::default();
    for (rank, ticket) in [(1, "rank 0"), (2, "rank 1")] {
        assert_eq!(home.open(FILE, opener(rank, Some(9)), ticket, 0), [(ticket, DELEGATED)]);
    }
    home.await_recall(FILE, id(1), 0, "recall 0");
    home.await_recall(FILE, id(2), 0, "recall 1");
    // Another opening of the same job is another group.
    let recalls = home.open(FILE, opener(3, Some(10)), "other", 1);
    assert_eq!(recalls, [("recall 0", RECALLED), ("recall 1", RECALLED)]);
    home.give_back(FILE, id(1), (0, Vec::new()), "back 0", 2);
    assert_eq!(home.claim(FILE, id(1), (0, write(0, 1)), "claim", 3), [], "rank 1 may write");
    let answers = home.give_back(FILE, id(2), (0, Vec::new()), "back 1", 4);
    assert_eq!(answers, [("back 1", DONE), ("other", AT_HOME), ("claim", AT_HOME)]);
    let ids = [id(1), id(2), id(3)];
    let closed = ids.map(|one| home.close(FILE, one, "close", 5));
    assert!(closed.iter().all(|answers| *answers == [("close", DONE)]) && home.is_empty());
}

#[test]
fn the_claims_of_an_opener_are_limited() {
    let mut home = AtomicOpeners::default();
    home.open(FILE, opener(1, None), "", 0);
    home.open(FILE, opener(2, None), "", 0);
    let claims = (0..OPENER_CLAIMS_LIMIT as u64 + 7).map(|number| (number, write(number, 1)));
    home.give_back(FILE, id(1), (0, claims.collect()), "", 0);
    let refused = Err(OpenerRefusal::TooManyClaims);
    assert_eq!(home.claim(FILE, id(1), (9_999, write(0, 1)), "claim", 0), [("claim", refused)]);
    let nonsense = BytesUse { from: 9, to: 3, is_write: true };
    assert_eq!(home.claim(FILE, id(2), (0, nonsense), "none", 0), [("none", AT_HOME)]);
}
