//! Callbacks, which run on the machine of a rank.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use std::io::Write as _;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::ranks::{EVERY_DISTRIBUTION, Machines, spread};
use pario_net::{Bulk, RecvBuffer, SendBuffer};
use pario_team::{CallbackRequest, TeamError};

#[test]
fn a_callback_gets_what_was_sent_and_gives_its_result() {
    for machines in EVERY_DISTRIBUTION {
        spread(5, machines, |team| {
            let told = team.callback(|call| {
                let mut result = vec![call.from as u8, call.target as u8];
                result.extend_from_slice(call.header);
                result.extend(call.data.iter().rev());
                Ok(result)
            });
            let told = told.unwrap();
            let data: Vec<u8> = (0..200_000_u32).map(|place| place as u8).collect();
            // Several under way, waited for in another order.
            let targets = [4, 0, 3, 1, 2];
            let begun: Vec<_> = targets
                .iter()
                .map(|target| (*target, told.start(b"head", &data, *target).unwrap()))
                .collect();
            for (target, pending) in begun.into_iter().rev() {
                let result = pending.wait().unwrap();
                assert_eq!(result[..6], [team.rank() as u8, target as u8, b'h', b'e', b'a', b'd']);
                assert!(result[6..].iter().eq(data.iter().rev()));
            }
            team.barrier().unwrap();
        });
    }
}

#[test]
fn a_callback_runs_at_the_machine_that_was_asked_and_fails_alone() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    spread(4, Machines::Of(2), |team| {
        let picky = team.callback(|call| {
            CALLS.fetch_add(1, Ordering::Relaxed);
            match call.header {
                b"panic" => panic!("the test asks for a panic"),
                b"error" => Err("nothing to be had".to_owned()),
                _ => Ok(Vec::new()),
            }
        });
        let picky = picky.unwrap();
        let why = |header: &[u8]| match picky.call(header, b"", 3).unwrap_err() {
            TeamError::Callback { rank: 3, why } => why,
            error => panic!("{error}"),
        };
        let (panicked, good, failed) =
            (why(b"panic"), picky.call(b"good", b"", 3).unwrap(), why(b"error"));
        assert_eq!(panicked, "it panicked: the test asks for a panic");
        assert_eq!((good, failed.as_str()), (Vec::new(), "nothing to be had"));
        let error = picky.start(b"", b"", 4).err().unwrap().to_string();
        assert_eq!(error, "there are 4 ranks, and so no rank 4");
        team.barrier().unwrap();
    });
    assert_eq!(CALLS.load(Ordering::Relaxed), 4 * 3);
}

#[test]
fn many_callbacks_have_numbers_of_their_own() {
    spread(3, Machines::InTurn(2), |team| {
        let all: Vec<_> = (0..20_u8)
            .map(|number| {
                // Memory in between has numbers as well.
                let _ = team.segments(8).unwrap();
                team.callback(move |_| Ok(vec![number])).unwrap()
            })
            .collect();
        for (number, callback) in (0..).zip(&all) {
            for target in 0..3 {
                assert_eq!(callback.call(b"", b"", target).unwrap(), [number]);
            }
        }
        team.barrier().unwrap();
    });
}

/// Replies in another order than that of the requests: each waits for the next one.
#[test]
fn answers_may_come_later_and_from_other_threads() {
    for machines in EVERY_DISTRIBUTION {
        spread(3, machines, |team| {
            let waiting: Mutex<Vec<CallbackRequest>> = Mutex::default();
            let later = team.callback_later(move |asked| match asked.call().header {
                b"wait" => waiting.lock().unwrap().push(asked),
                _ => {
                    let from = asked.call().from;
                    asked.reply(Ok(Bulk::new()));
                    let is_its = |asked: &mut CallbackRequest| asked.call().from == from;
                    let ready: Vec<_> = waiting.lock().unwrap().extract_if(.., is_its).collect();
                    std::thread::spawn(move || {
                        for asked in ready.into_iter().rev() {
                            let data = asked.call().data.to_vec();
                            asked.reply(Ok(data.into()));
                        }
                    });
                }
            });
            let later = later.unwrap();
            for target in 0..3 {
                let start = |number: u8| later.start(b"wait", &[number; 9], target).unwrap();
                let begun: Vec<_> = (0..5).map(start).collect();
                assert_eq!(later.call(b"now", b"", target).unwrap(), b"");
                for (number, pending) in (0..).zip(begun) {
                    assert_eq!(pending.wait().unwrap()[..], [number; 9]);
                }
            }
            team.barrier().unwrap();
        });
    }
}

#[test]
fn a_caller_without_an_answer_gets_an_error() {
    spread(2, Machines::Of(1), |team| {
        let silent = team.callback_later(|asked| match asked.call().header {
            b"panic" => panic!("the test asks for a panic"),
            _ => drop(asked),
        });
        let silent = silent.unwrap();
        for header in [&b"panic"[..], b""] {
            for rank in 0..2 {
                let why = "it gave no reply".to_owned();
                let error = silent.call(header, b"", rank).unwrap_err();
                assert_eq!(error, TeamError::Callback { rank, why });
            }
        }
        team.barrier().unwrap();
        silent.forget();
        team.barrier().unwrap();
        let error = silent.call(b"", b"", 1).unwrap_err().to_string();
        assert!(error.contains("there is no such callback"), "{error}");
        team.barrier().unwrap();
    });
}

#[test]
fn lent_bytes_and_files_are_not_copied_on_the_way() {
    let content: Vec<u8> = (0..3_000_000_u32).map(|place| (place % 251) as u8).collect();
    let mut file = std::fs::File::from(memory_file());
    file.write_all(&content).unwrap();
    let (file, content) = (Arc::new(file), &content);
    for machines in EVERY_DISTRIBUTION {
        spread(4, machines, |team| {
            let file = file.clone();
            let part = team.callback_later(move |asked| {
                let len = asked.call().data.len();
                match asked.can_reply_with_file(len) {
                    true => asked.reply_with_file(file.clone(), 7, len),
                    false => {
                        let data = asked.call().data.to_vec();
                        asked.reply(Ok(data.into()));
                    }
                }
            });
            let part = part.unwrap();
            for target in 0..4 {
                let mut memory = vec![0; 2_000_000];
                let loan = SendBuffer::new();
                // SAFETY: the memory is not used before it was taken back.
                let landing = unsafe {
                    RecvBuffer::new([(NonNull::from(&mut memory[..]).cast(), memory.len())])
                        .unwrap()
                };
                // SAFETY: the bytes stay until the loan was waited for.
                let lent = unsafe { loan.lend(&content[7..2_000_007]) };
                let begun = part.start_into(b"", lent, target, Some(&landing)).unwrap();
                let bytes = begun.wait().unwrap();
                if !landing.take_back() {
                    memory.copy_from_slice(&bytes);
                }
                loan.wait();
                assert!(memory == content[7..2_000_007]);
            }
            team.barrier().unwrap();
        });
    }
}

fn memory_file() -> std::os::fd::OwnedFd {
    rustix::fs::memfd_create("callback", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
}
