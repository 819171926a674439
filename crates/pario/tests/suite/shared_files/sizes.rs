//! Sizes of shared files, over every transport that admits several clients.

use std::io::SeekFrom;

use pario::Mode;

use super::{CONNECTED, byte_of, together};
use crate::sites::{Site, Transport};

#[test]
fn files_become_longer_and_never_shorter() {
    for transport in CONNECTED {
        eprintln!("{transport:?}");
        let site = Site::new(transport);
        together(&site, 2, |files| {
            for mode in Mode::ALL {
                let file = files.create("/sizes", mode).unwrap();
                assert_eq!(file.extend(SeekFrom::Start(300_000)).unwrap(), 300_000);
                assert_eq!(file.extend(SeekFrom::Start(10)).unwrap(), 300_000);
                assert_eq!(file.extend(SeekFrom::End(-10)).unwrap(), 300_000);
                assert_eq!(file.extend(SeekFrom::Current(-10)).unwrap(), 300_000);
                assert!(file.extend(SeekFrom::Start(u64::MAX)).is_err());
                assert!(file.extend(SeekFrom::End(i64::MAX)).is_err());
                assert_eq!(file.position().unwrap(), 0);
                files.barrier().unwrap();
                file.seek(SeekFrom::Start(400_000)).unwrap();
                files.barrier().unwrap();
                assert_eq!(file.extend(SeekFrom::Current(5)).unwrap(), 400_005);
                let mut bytes = vec![1; 400_005];
                file.file().read_exact_at(&mut bytes, 0).unwrap();
                assert!(bytes.iter().all(|byte| *byte == 0), "the added bytes are zeros");
                files.barrier().unwrap();
                file.close().unwrap();
            }
        });
    }
}

#[test]
fn extending_keeps_concurrent_writes_of_others() {
    let site = Site::new(Transport::Socket);
    together(&site, 3, |files| {
        let file = files.create("/grown", Mode::Async).unwrap();
        let own = [byte_of(files.job().rank()); 100];
        for round in 0..300 {
            let place = (round * 3 + u64::from(files.job().rank())) * 100;
            file.file().write_at(&own, place).unwrap();
            assert!(file.extend(SeekFrom::Start(place + 50)).unwrap() >= place + 100);
            let mut seen = [0; 100];
            file.file().read_exact_at(&mut seen, place).unwrap();
            assert_eq!(seen, own);
        }
        file.close().unwrap();
    });
}
