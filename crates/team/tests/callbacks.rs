//! Functions that run at the machine of a rank.

#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

mod ranks;

use std::sync::atomic::{AtomicU64, Ordering};

use pario_team::TeamError;
use ranks::{EVERY_WAY, Machines, spread};

#[test]
fn a_callback_gets_what_was_sent_and_gives_its_result() {
    for machines in EVERY_WAY {
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
                .map(|target| (*target, told.start(*target, b"head", &data).unwrap()))
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
                b"panic" => panic!("as it was told to"),
                b"error" => Err("nothing to be had".to_owned()),
                _ => Ok(Vec::new()),
            }
        });
        let picky = picky.unwrap();
        let why = |header: &[u8]| match picky.call(3, header, b"").unwrap_err() {
            TeamError::Callback { rank: 3, why } => why,
            error => panic!("{error}"),
        };
        let (panicked, good, failed) =
            (why(b"panic"), picky.call(3, b"good", b"").unwrap(), why(b"error"));
        assert_eq!(panicked, "it panicked: as it was told to");
        assert_eq!((good, failed.as_str()), (Vec::new(), "nothing to be had"));
        let error = picky.start(4, b"", b"").err().unwrap().to_string();
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
                assert_eq!(callback.call(target, b"", b"").unwrap(), [number]);
            }
        }
        team.barrier().unwrap();
    });
}
