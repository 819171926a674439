//! Operations on extents at their nodes: results, partial results, written extents, errors, and
//! calls that the client abandons.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pario::{Cluster, Error, ExtentIndex, ExtentPlacement, Failure, File, SubfileIndex};

use crate::sites::operations::next;
use crate::sites::{Site, TRANSPORTS, Transport, until};

type Extents = BTreeMap<ExtentPlacement, (Vec<u8>, Vec<u8>)>;

fn place(subfile: u32, extent: u64) -> ExtentPlacement {
    ExtentPlacement { subfile: SubfileIndex(subfile), extent: ExtentIndex(extent) }
}

fn create(cluster: &Cluster, path: &str) -> File {
    cluster.options().read(true).write(true).create(true).extents().open(path).unwrap()
}

/// A file with extents here and there, of all sizes.
fn filled(cluster: &Cluster, path: &str, seed: u64) -> (File, Extents) {
    let mut random = fastrand::Rng::with_seed(seed);
    let file = create(cluster, path);
    let mut extents = Extents::new();
    for _ in 0..random.usize(20..60) {
        // Subfile 3 stays empty: it never comes into being.
        let place = place(random.u32(0..3), random.u64(0..30));
        let header: Vec<u8> = (0..random.usize(0..20)).map(|_| random.u8(..)).collect();
        let len = [0, 1, 100, 5_000, 70_000][random.usize(0..5)];
        let body: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
        file.write_extent(&header, &body, place).unwrap();
        extents.insert(place, (header, body));
    }
    (file, extents)
}

fn contents(file: &File) -> Extents {
    let listed = file.list_extents().unwrap().map(|found| found.unwrap().0);
    let read = |place| {
        let extent = file.read_extent(place).unwrap().unwrap();
        (place, (extent.header.to_vec(), extent.body.to_vec()))
    };
    listed.map(read).collect()
}

/// Runs a test over every transport, with nodes that know the operations of the tests.
fn over_every_transport(test: impl Fn(&Site)) {
    for transport in TRANSPORTS {
        println!("{transport:?}");
        test(&Site::with_operations(transport));
    }
}

#[test]
fn results_come_for_every_extent_and_are_the_callers() {
    over_every_transport(|site| {
        for seed in 0..5 {
            let (file, extents) = filled(&site.cluster, &format!("/file {seed}"), seed);
            let work = site.cluster.process(&file).operation("sum", seed);
            let results: Vec<(ExtentPlacement, (Vec<u8>, u64))> = work.collect().unwrap();
            let sum = |body: &[u8]| body.iter().map(|byte| u64::from(*byte)).sum::<u64>() + seed;
            let expected: Vec<_> = extents
                .iter()
                .map(|(place, (header, body))| (*place, (header.clone(), sum(body))))
                .collect();
            assert_eq!(results, expected);
            // Only some, in any order; an absent extent has no result.
            let mut some: Vec<ExtentPlacement> = extents.keys().copied().step_by(3).collect();
            some.reverse();
            some.push(place(3, 7));
            some.push(place(0, 1_000));
            let work = site.cluster.process(&file).extents(some.clone()).operation("sum", seed);
            let results: Vec<(ExtentPlacement, (Vec<u8>, u64))> = work.collect().unwrap();
            let expected: Vec<_> =
                expected.into_iter().filter(|(place, _)| some.contains(place)).collect();
            assert_eq!(results, expected);
        }
    });
}

#[test]
fn nodes_put_together_what_they_find() {
    over_every_transport(|site| {
        let (file, extents) = filled(&site.cluster, "/file", 7);
        let answers = Cell::new(0);
        let work = site.cluster.process(&file).operation("places", ());
        let mut places: Vec<(u32, u64)> = Vec::new();
        let report = work
            .for_each(|place, more: Vec<(u32, u64)>| {
                assert_eq!(place, None);
                answers.set(answers.get() + 1);
                places.extend(more);
                Ok(())
            })
            .unwrap();
        places.sort_unstable();
        let expected: Vec<_> =
            extents.keys().map(|place| (place.subfile.0, place.extent.0)).collect();
        assert_eq!(places, expected);
        let nodes = site.cluster.map().nodes.len();
        assert_eq!(answers.get(), nodes, "one result for each node");
        let bytes: usize = extents.values().map(|(header, body)| header.len() + body.len()).sum();
        let progress = report.progress;
        assert_eq!((progress.total, progress.done), (places.len() as u64, places.len() as u64));
        assert_eq!((progress.found, progress.seen_bytes), (places.len() as u64, bytes as u64));
        let histogram: Vec<u64> = site
            .cluster
            .process(&file)
            .operation("byte histogram", ())
            .merge(|all: &mut Vec<u64>, more| {
                all.iter_mut().zip(more).for_each(|(count, other)| *count += other);
            })
            .unwrap()
            .unwrap();
        let mut expected = vec![0; 256];
        for byte in extents.values().flat_map(|(_, body)| body) {
            expected[usize::from(*byte)] += 1;
        }
        assert_eq!(histogram, expected);
    });
}

#[test]
fn extents_are_written_where_their_node_is_with_parts_of_others_from_anywhere() {
    over_every_transport(|site| {
        let (file, extents) = filled(&site.cluster, "/file", 11);
        let like = file.record().layout.clone().unwrap();
        let exactly = |path: &str| {
            let options = site.cluster.options().read(true).write(true).create(true);
            options.layout(like.clone()).open(path).unwrap()
        };
        let copy = exactly("/copy");
        let work = site.cluster.process(&file).operation("copy", ());
        let report = work.write_to(&copy).unwrap();
        assert_eq!(contents(&copy), extents);
        assert_eq!(report.progress.written, extents.len() as u64);
        copy.close().unwrap();

        let chained = exactly("/chained");
        let (count, end) = (12u64, 9u8);
        let work = site.cluster.process(&file).operation("chain", (count, end));
        let report = work.write_to(&chained).unwrap();
        let found = contents(&chained);
        assert_eq!(found.len() as u64, 4 * count, "also for extents that are not there");
        let body = |place: ExtentPlacement| extents.get(&place).map_or(&[][..], |(_, body)| body);
        for (place, (header, made)) in &found {
            let mut expected = body(*place).to_vec();
            let (first, second) = (next(*place, 4), next(next(*place, 4), 4));
            for other in [first, second] {
                let other = body(other);
                expected.extend_from_slice(&other[other.len().saturating_sub(end.into())..]);
            }
            assert_eq!(made, &expected, "{place:?}");
            assert_eq!(header, &[u8::from(extents.contains_key(place))], "{place:?}");
        }
        let is_alone = site.cluster.map().nodes.len() == 1;
        assert_eq!(report.progress.neighbour_bytes == 0, is_alone);
    });
}

#[test]
fn errors_name_the_node_and_the_extent() {
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let (file, _) = filled(cluster, "/file", 3);
        file.write_extent(b"", b"x", place(1, 77)).unwrap();
        let failed = |error: Error| match error {
            Error::File { path, failure } if path == "/file" => failure,
            error => panic!("{error:?}"),
        };
        for is_panic in [false, true] {
            let work = cluster.process(&file).operation("fail at", (77u64, is_panic));
            let error = work.collect::<()>().unwrap_err();
            let text = error.to_string();
            let Failure::Operation { node, operation, place: at, why } = failed(error) else {
                panic!("{text}")
            };
            assert_eq!((&*operation, at.as_deref()), ("fail at", Some(&place(1, 77))));
            let disk = cluster
                .map()
                .disk_name(file.record().layout.as_ref().unwrap().disks().as_slice()[1]);
            assert_eq!(disk.split('/').next(), Some(&*node), "{disk}");
            assert!(why.contains("the test asks for"), "{why}");
            assert!(text.contains("extent 77 of subfile 1"), "{text}");
            assert_eq!(why.contains("panicked"), is_panic);
        }
        let work = cluster.process(&file).operation("sharpen", ());
        let error = work.collect::<()>().unwrap_err().to_string();
        assert!(error.contains("\"sharpen\"") && error.contains("byte histogram"), "{error}");
        let work = cluster.process(&file).operation("fail at", ());
        let error = work.collect::<()>().unwrap_err().to_string();
        assert!(error.contains("the parameters of the operation cannot be decoded"), "{error}");
        let work = cluster.process(&file).operation("long", 100usize);
        let error = work.collect::<Option<bool>>().unwrap_err().to_string();
        assert!(error.contains("have another type"), "{error}");
        // Files that are not for this.
        let flat = cluster.create("/flat").unwrap();
        let error = cluster.process(&flat).operation("count", ()).collect::<()>().unwrap_err();
        assert!(error.to_string().contains("/flat: this is a file of bytes"), "{error}");
        let error = cluster.process(&file).operation("copy", ()).collect::<()>().unwrap_err();
        assert!(error.to_string().contains("the caller has named no target file"), "{error}");
        let copy = create(cluster, "/copy");
        let error = cluster.process(&file).operation("astray", ()).write_to(&copy).unwrap_err();
        assert!(error.to_string().contains("has no such subfile"), "{error}");
        let read_only = cluster.open("/copy").unwrap();
        let error = cluster.process(&file).operation("copy", ()).write_to(&read_only).unwrap_err();
        assert!(error.to_string().contains("not opened for writing"), "{error}");
        let write_only = cluster.options().write(true).open("/file").unwrap();
        let error =
            cluster.process(&write_only).operation("count", ()).collect::<()>().unwrap_err();
        assert!(error.to_string().contains("not opened for reading"), "{error}");
        // An error of the caller's own ends the work.
        let work = cluster.process(&file).operation("sum", 0u64);
        let mut seen = 0;
        let error = work.for_each(|_, _: (Vec<u8>, u64)| {
            seen += 1;
            Err(Error::Other { text: "enough".to_owned() })
        });
        assert_eq!((error.unwrap_err().to_string().as_str(), seen), ("enough", 1));
        // The nodes are none the worse.
        let counted: Option<(u64, u64, u64)> = cluster
            .process(&file)
            .operation("count", ())
            .merge(|all: &mut (u64, u64, u64), more| all.0 += more.0)
            .unwrap();
        assert_eq!(counted.unwrap().0, contents(&file).len() as u64);
        until("nothing is under way", || site.status().requests == 0);
    });
}

/// A file with many extents whose results are far more than may wait for the caller.
fn many(cluster: &Cluster) -> (File, usize) {
    let file = create(cluster, "/many");
    let count: usize = 400;
    for number in 0..count as u64 {
        file.write_extent(b"", b"x", place((number % 4) as u32, number / 4)).unwrap();
    }
    (file, count)
}

#[test]
fn a_caller_that_takes_its_time_is_waited_for() {
    over_every_transport(|site| {
        let (file, count) = many(&site.cluster);
        let len = 400_000usize;
        let (came, done_while_waiting, most) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let work = site.cluster.process(&file).operation("long", len);
        let watch = |report: &pario::ProcessReport| {
            if done_while_waiting.get() == 0 && came.get() > 1 {
                done_while_waiting.set(report.progress.done);
            }
            most.set(most.get().max(report.progress.done));
        };
        let report = work
            .watch(watch)
            .for_each(|place, result: Vec<u8>| {
                assert!(place.is_some() && result.len() == len);
                came.set(came.get() + 1);
                if came.get() == 1 {
                    // While this callback runs, the client fetches no results, and the nodes are
                    // otherwise idle.
                    for _ in 0..500 {
                        site.status();
                    }
                }
                Ok(())
            })
            .unwrap();
        assert_eq!((came.get(), report.progress.done), (count, count as u64));
        assert_eq!(most.get(), count as u64, "the last report reaches the watcher");
        let waited = done_while_waiting.get();
        assert!(
            waited < 300,
            "{waited} of {count} extents were done though the client fetched none"
        );
    });
}

#[test]
fn work_can_be_given_up() {
    over_every_transport(|site| {
        let (file, count) = many(&site.cluster);
        let work = site.cluster.process(&file).operation("long", 200_000usize);
        let stopper = work.stopper();
        let mut came = 0;
        let error = work.for_each(|_, _: Vec<u8>| {
            came += 1;
            stopper.stop();
            Ok(())
        });
        assert_eq!(error.unwrap_err(), Error::Stopped { operation: "long".to_owned() });
        assert!(came < count, "it was stopped in the middle");
        until("nothing is under way", || site.status().requests == 0);
    });
}

#[test]
fn a_caller_that_is_gone_is_not_worked_for() {
    for transport in [Transport::Socket, Transport::TwoNodes] {
        let site = Site::with_operations(transport);
        let (file, _) = many(&site.cluster);
        file.close().unwrap();
        let other = site.another();
        std::thread::spawn(move || {
            let file = other.open("/many").unwrap();
            let work = other.process(&file).operation("long", 200_000usize);
            // The connection goes with the thread, in the middle of the work.
            work.for_each(|_, _: Vec<u8>| Err(Error::Other { text: "gone".to_owned() }))
        })
        .join()
        .unwrap()
        .unwrap_err();
        until("nothing is under way", || site.status().requests == 0);
    }
}

#[test]
fn a_node_that_dies_in_the_middle_is_named() {
    let mut site = Site::with_operations(Transport::TwoNodes);
    let (file, _) = many(&site.cluster);
    let mut child = site.child.take().unwrap();
    let began = Cell::new(None);
    let work = site.cluster.process(&file).operation("long", 200_000usize);
    let mut is_killed = false;
    let error = work.for_each(|_, _: Vec<u8>| {
        if !is_killed {
            child.kill();
            is_killed = true;
            began.set(Some(Instant::now()));
        }
        Ok(())
    });
    let error = error.unwrap_err();
    assert!(began.get().unwrap().elapsed() < Duration::from_secs(20));
    assert!(matches!(&error, Error::NodeDown { node, .. } if node == "b"), "{error:?}");
    until("nothing is under way", || site.status().requests == 0);
}

#[test]
fn a_trace_shows_disks_and_threads() {
    over_every_transport(|site| {
        let (file, extents) = filled(&site.cluster, "/file", 5);
        let work = site.cluster.process(&file).operation("sum", 0u64).trace(true);
        let report = work.for_each(|_, _: (Vec<u8>, u64)| Ok(())).unwrap();
        let of = |prefix: &'static str| {
            let spans = report.trace.spans.iter();
            let of_thread = spans.filter(move |span| span.thread.starts_with(prefix));
            of_thread.map(|span| span.name.as_str())
        };
        assert_eq!(of("Compute[").filter(|name| *name == "sum").count(), extents.len());
        let known = |name: &&str| {
            name.starts_with("waits for ") || ["sum", "finish", "send results"].contains(name)
        };
        assert!(of("Compute[").all(|name| known(&name)));
        assert!(of("network").count() >= site.cluster.map().nodes.len());
        assert!(of("network").all(|name| name == "answer"), "bytes are not a category");
        // Which of the compute threads has worked is theirs to say.
        let picture = report.trace.to_timing_svg();
        for span in &report.trace.spans {
            assert!(span.begin_ns <= span.end_ns, "{span:?}");
            assert!(picture.contains(&span.thread), "{span:?}");
        }
    });
}

#[test]
fn rights_that_change_before_the_call_are_renewed() {
    over_every_transport(|site| {
        let (file, extents) = filled(&site.cluster, "/file", 5);
        site.cluster.set_mode("/file", 0o600).unwrap();
        let work = site.cluster.process(&file).operation("sum", 0u64);
        assert_eq!(work.collect::<(Vec<u8>, u64)>().unwrap().len(), extents.len());
    });
}
