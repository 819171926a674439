//! Strangers: a space refuses or drops them with a reason, and no other peer is disturbed.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::stranger::{HELLO, SOON, Talk, answer, builder, come_in, host, knock, refused};
use pario_net::{Key, Space, SpaceError};

#[test]
fn another_version_or_protocol_is_refused() {
    let host = host();
    let mut newer = HELLO;
    newer[8] = 9;
    let mut stream = knock(&host);
    stream.write_all(&newer).unwrap();
    let text = String::from_utf8_lossy(&answer(&mut stream)).into_owned();
    assert!(text.contains("it speaks version 9, this is version 2"), "{text}");
    refused(&host, "version 9");

    let mut stream = knock(&host);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(answer(&mut stream)[0], 1);
    refused(&host, "does not speak this protocol");
}

#[test]
fn random_bytes_are_refused_before_and_after_the_handshake() {
    let host = host();
    let talk = Talk::through(&host);
    let mut rng = fastrand::Rng::with_seed(11);
    for round in 0..300 {
        let mut stream = knock(&host);
        let mut bytes = vec![0; rng.usize(1..5_000)];
        rng.fill(&mut bytes);
        if round % 3 > 0 {
            come_in(&mut stream);
        }
        if round % 3 == 2 {
            // Lengths that could be true.
            bytes.iter_mut().skip(1).step_by(2).for_each(|byte| *byte = 0);
        }
        // It may be cut off while it still talks.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        answer(&mut stream);
    }
    talk.goes_on();
}

#[test]
fn an_over_long_frame_ends_the_link() {
    let host = host();
    let talk = Talk::through(&host);
    for packet in [
        // An inline area of 4 GiB; a bulk area of 2^60; bulk that begins at once; frames that
        // cannot fit; a channel that was never opened.
        [&[0xff; 4][..], &[1, 0, 0, 0], &[0; 8]].concat(),
        [&[0, 2, 0, 0][..], &[1, 0, 0, 0], &[0, 0, 0, 0, 0, 0, 0, 16]].concat(),
        [&[16, 0, 0, 0][..], &[1, 0, 0, 0], &[0, 16, 0, 0, 0, 0, 0, 0]].concat(),
        [&[12, 0, 0, 0][..], &[2, 0, 0, 0], &[0; 8]].concat(),
        [&[12, 0, 0, 0][..], &[1, 0, 0, 0], &[0; 8], &[9, 0, 0, 0], &[0; 8]].concat(),
    ] {
        let mut stream = knock(&host);
        come_in(&mut stream);
        stream.write_all(&packet).unwrap();
        assert_eq!(answer(&mut stream), [], "it is cut off");
    }
    talk.goes_on();
}

#[test]
fn a_stranger_that_stops_in_mid_frame_disturbs_no_link() {
    let host = host();
    let talk = Talk::through(&host);
    let mut half = Vec::new();
    for len in [1, 8, 60, 61] {
        let mut stream = knock(&host);
        stream.write_all(&HELLO[..len]).unwrap();
        half.push(stream);
    }
    for len in [1, 15, 16, 20] {
        let mut stream = knock(&host);
        come_in(&mut stream);
        let packet = [&[100, 0, 0, 0][..], &[1, 0, 0, 0], &[0; 8], &[0; 4]].concat();
        stream.write_all(&packet[..len]).unwrap();
        half.push(stream);
    }
    talk.goes_on();
    let new = builder("new").join(&host.address()).build().unwrap();
    new.input::<u8>("works").unwrap();
    // A peer that does not finish the handshake is rejected in time.
    refused(&host, "said nothing for too long");
}

#[test]
fn ten_thousand_silent_connections_are_bounded() {
    let host = host();
    let talk = Talk::through(&host);
    let open_files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open_files();
    let mut silent = std::collections::VecDeque::new();
    let mut most = 0;
    for number in 0..10_000 {
        // Our own ends must not use up the descriptors of this process.
        if silent.len() == 200 {
            silent.pop_front();
        }
        silent.push_back(knock(&host));
        if number % 500 == 0 {
            talk.goes_on();
            most = most.max(open_files());
        }
    }
    talk.goes_on();
    // Both ends are in this process: 200 of ours, at most 64 of the host's; other tests have some.
    assert!(most < before + 200 + 64 + 100, "{most} descriptors, {before} before");
    refused(&host, "too many callers that say nothing");
    assert!(host.refusals().len() <= 1024);
    let late = builder("late").join(&host.address()).build().unwrap();
    late.output::<u64>("talk", SOON).unwrap();
}

/// The processes of a large job come all at once, and none displaces another one.
#[test]
fn a_crowd_of_this_machine_is_let_in() {
    let host = Space::builder("host").host().build().unwrap();
    let path = host.address().unix.unwrap();
    let mut crowd: Vec<_> = (0..300).map(|_| knock_at(&path)).collect();
    for stream in &mut crowd {
        let mut answer = [9];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0], "it is greeted: {:?}", host.refusals());
    }
    assert!(host.refusals().is_empty(), "{:?}", host.refusals());
}

/// Says hello at a Unix socket.
fn knock_at(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(&HELLO).unwrap();
    stream
}

#[test]
fn keys_are_proved_both_ways() {
    let (key, other) = (Key::random(), Key::random());
    let host = builder("host").key(key.clone()).host().build().unwrap();
    let join = |name: &str, key: Option<Key>| {
        let builder = builder(name).join(&host.address());
        match key {
            Some(key) => builder.key(key).build(),
            None => builder.build(),
        }
    };
    let friend = join("friend", Some(key)).unwrap();
    let input = friend.input::<u8>("port").unwrap();
    host.output::<u8>("port", SOON).unwrap().send(1).unwrap();
    assert_eq!(input.recv_timeout(SOON).unwrap(), 1);

    let error = join("wrong", Some(other.clone())).unwrap_err().to_string();
    assert!(error.contains("does not know the key"), "{error}");
    refused(&host, "does not know the key");
    let error = join("none", None).unwrap_err().to_string();
    assert!(error.contains("it needs a key, and this space has none"), "{error}");
    refused(&host, "has no key");

    // A host without a key is not believed either.
    let open = builder("open").host().build().unwrap();
    let error = builder("keyed").key(other).join(&open.address()).build().unwrap_err();
    assert!(error.to_string().contains("key"), "{error}");
}

#[test]
fn nothing_listens_to_others_without_a_key() {
    let wide = Space::builder("wide").listen_tcp("0.0.0.0:0".parse().unwrap()).host();
    let error = wide.clone().build().unwrap_err();
    assert!(matches!(error, SpaceError::KeyNeeded { .. }), "{error}");
    let lone = Space::builder("lone").build().unwrap_err();
    assert!(matches!(lone, SpaceError::NoDirectory { .. }), "{lone}");
    let empty = Space::builder("").host().build().unwrap_err();
    assert!(matches!(empty, SpaceError::BadName { .. }), "{empty}");
}

#[test]
fn names_of_spaces_and_paths_of_sockets_are_unique() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let host = Space::builder("host").listen_unix(&path).host().build().unwrap();
    let error = Space::builder("other").listen_unix(&path).host().build().unwrap_err();
    assert!(matches!(error, SpaceError::Listen { .. }), "{error}");
    let error = Space::builder("host").join(&host.address()).build().unwrap_err();
    assert!(matches!(error, SpaceError::NameTaken { .. }), "{error}");
    drop(host);
    assert!(!path.exists(), "removed with its space");
    // A socket that a killed process left is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let host = Space::builder("host").listen_unix(&path).host().build().unwrap();
    let text = host.address().to_string();
    Space::builder("guest").join(&text.parse().unwrap()).build().unwrap();
    let gone = pario_net::Address::unix(dir.path().join("nothing"));
    let error = Space::builder("lost").join(&gone).build().unwrap_err();
    assert!(matches!(error, SpaceError::Join { .. }), "{error}");
}
