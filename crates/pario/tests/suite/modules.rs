//! Operations that are WebAssembly modules, at the nodes: results, partial results, neighbours and
//! new extents, versions, rights, and modules that fail.

use std::collections::BTreeMap;
use std::time::Instant;

use pario::{Cluster, Error, ErrorKind, ExtentIndex, ExtentPlacement, Failure, File, SubfileIndex};
use pario_proto::{
    Access, ExtentSelection, ModuleRequest, ProcessRequest, ProcessWork, Reply, Request,
};

use crate::clang::{example, module};
use crate::sites::raw_client::{RawClient, part};
use crate::sites::{Site, Transport, over_every_transport, tcp_of};

const CALLABLE: u32 = 0o755;

fn place(number: usize) -> ExtentPlacement {
    let subfile = SubfileIndex(u32::try_from(number % 4).unwrap());
    ExtentPlacement { subfile, extent: ExtentIndex(number as u64 / 4) }
}

/// A file with bodies at consecutive placements over four subfiles.
fn filled(cluster: &Cluster, path: &str, bodies: &[Vec<u8>]) -> File {
    let options = cluster.options().read(true).write(true).create(true);
    let file = options.extents().open(path).unwrap();
    for (number, body) in bodies.iter().enumerate() {
        file.write_extent(b"head", body, place(number)).unwrap();
    }
    file
}

fn random_bodies(count: usize, len: usize) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(3);
    (0..count).map(|_| (0..len).map(|_| random.u8(..)).collect()).collect()
}

type Results = BTreeMap<Option<ExtentPlacement>, Vec<u8>>;

fn call(cluster: &Cluster, file: &File, name: &str, parameters: &str) -> Result<Results, Error> {
    let mut results = Results::new();
    let call = cluster.process(file).operation_with(name, parameters.as_bytes().to_vec());
    call.for_each_bytes(|place, bytes| {
        results.insert(place, bytes.to_vec());
        Ok(())
    })?;
    Ok(results)
}

fn failure(result: Result<Results, Error>) -> String {
    match result.unwrap_err() {
        Error::Failure(failure @ Failure::Operation { .. })
        | Error::File { failure: failure @ Failure::Operation { .. }, .. } => failure.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_module_gives_results_and_partial_results_over_every_transport() {
    let (threshold, histogram) = (example("threshold"), example("histogram"));
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let bodies = random_bodies(25, 3000);
        let file = filled(cluster, "/file", &bodies);
        cluster.add_module("threshold", &threshold, CALLABLE).unwrap();
        cluster.add_module("histogram", &histogram, CALLABLE).unwrap();
        let expected: Results = (0..)
            .zip(&bodies)
            .map(|(number, body)| {
                let mask = body.iter().map(|byte| if *byte > 90 { 255 } else { 0 }).collect();
                (Some(place(number)), mask)
            })
            .collect();
        assert_eq!(call(cluster, &file, "threshold", "level=90").unwrap(), expected);
        let mut counts = vec![0_u64; 256];
        let mut nodes = 0;
        let histogram = cluster.process(&file).operation_with("histogram", Vec::new());
        histogram
            .for_each_bytes(|place, bytes| {
                assert_eq!(place, None);
                nodes += 1;
                for (count, more) in counts.iter_mut().zip(bytes.chunks_exact(8)) {
                    *count += u64::from_le_bytes(more.try_into().unwrap());
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(nodes, cluster.map().nodes.len(), "one result for each node");
        let of_byte = |byte| bodies.iter().flatten().filter(|found| **found == byte).count() as u64;
        assert_eq!(counts, (0..=255).map(of_byte).collect::<Vec<_>>());
        let wrong = failure(call(cluster, &file, "threshold", "level=no"));
        assert!(wrong.contains("threshold needs the parameter level"), "{wrong}");
    });
}

/// The borders of tiles come from the other disks, and with two nodes from the other node, which
/// cuts them with the same module.
#[test]
fn a_module_gets_neighbours_and_writes_extents_over_every_transport() {
    const TILES: usize = 5;
    const SIDE: usize = 8;
    let stencil = example("stencil");
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let tiles = random_bodies(TILES * TILES, SIDE * SIDE);
        let file = filled(cluster, "/image", &tiles);
        let like = file.record().layout.clone().unwrap();
        let options = cluster.options().read(true).write(true).create(true);
        let target = options.layout(like).open("/mean").unwrap();
        cluster.add_module("stencil", &stencil, CALLABLE).unwrap();
        let parameters = format!("width={SIDE}\nheight={SIDE}\ncolumns={TILES}\nrows={TILES}");
        let call = cluster.process(&file).operation_with("stencil", parameters.into_bytes());
        let report = call.write_to(&target).unwrap();
        assert_eq!(report.progress.written, (TILES * TILES) as u64);
        let side = TILES * SIDE;
        let pixel = |x: usize, y: usize| {
            let (Some(x), Some(y)) = (x.checked_sub(2), y.checked_sub(2)) else { return 0 };
            if x >= side || y >= side {
                return 0;
            }
            let tile = &tiles[y / SIDE * TILES + x / SIDE];
            u32::from(tile[y % SIDE * SIDE + x % SIDE])
        };
        for number in 0..tiles.len() {
            let (left, top) = (number % TILES * SIDE, number / TILES * SIDE);
            let mean = |x: usize, y: usize| {
                let around = (0..5).flat_map(|dy| (0..5).map(move |dx| (x + dx, y + dy)));
                u8::try_from(around.map(|(x, y)| pixel(x, y)).sum::<u32>() / 25).unwrap()
            };
            let expected: Vec<u8> = (0..SIDE)
                .flat_map(|y| (0..SIDE).map(move |x| (x, y)))
                .map(|(x, y)| mean(left + x, top + y))
                .collect();
            let made = target.read_extent(place(number)).unwrap().unwrap();
            assert_eq!((&made.header[..], &made.body[..]), (&b"head"[..], &expected[..]));
        }
    });
}

#[test]
fn a_trap_fails_its_call_and_nothing_else() {
    let wild = module(
        "__attribute__((noinline)) static void refuse(volatile uint64_t extent) {
            if (extent == 3) __builtin_trap();
        }
        PARIO_EXPORT(pario_process) { refuse(input->extent); return pario_nothing(); }",
    );
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let file = filled(cluster, "/file", &random_bodies(20, 100));
        cluster.add_module("wild", &wild, CALLABLE).unwrap();
        for _ in 0..3 {
            let text = failure(call(cluster, &file, "wild", ""));
            assert!(text.contains("operation \"wild\" failed at extent 3 of "), "{text}");
            assert!(text.contains("module wild@1: pario_process trapped: "), "{text}");
            assert!(text.contains("\n  0: refuse + 0x"), "{text}");
        }
        let counted = call(cluster, &file, "count", "").unwrap();
        assert!(!counted.is_empty(), "other operations go on");
    });
}

#[test]
fn modules_are_listed_replaced_by_version_and_removed() {
    let first = module("PARIO_EXPORT(pario_process) { return pario_result(\"1\", 1); }");
    let second = module("PARIO_EXPORT(pario_process) { return pario_result(\"2\", 1); }");
    over_every_transport(|site| {
        let cluster = &site.cluster;
        let file = filled(cluster, "/file", &random_bodies(1, 10));
        let result = |name: &str| {
            let results = call(cluster, &file, name, "");
            results.map(|results| results.into_values().next().unwrap())
        };
        assert!(cluster.modules().unwrap().is_empty());
        let unknown = result("which").unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Unsupported, "{unknown}");
        assert_eq!(cluster.add_module("which", &first, 0o700).unwrap().version, 1);
        assert_eq!(cluster.add_module("which", &first, CALLABLE).unwrap().version, 1);
        assert_eq!(result("which").unwrap(), b"1");
        let record = cluster.add_module("which", &second, CALLABLE).unwrap();
        assert_eq!((record.version, record.mode), (2, CALLABLE));
        assert_eq!(record.functions, ["pario_process"]);
        assert_eq!(
            (result("which").unwrap(), result("which@2").unwrap()),
            (b"2".into(), b"2".into())
        );
        assert_eq!(result("which@1").unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(cluster.modules().unwrap(), std::slice::from_ref(&record));
        assert_eq!(cluster.module("which").unwrap(), record);
        assert_eq!(cluster.module_bytes("which").unwrap(), second);
        cluster.remove_module("which").unwrap();
        assert_eq!(result("which").unwrap_err().kind(), ErrorKind::Unsupported);
        for missing in [
            cluster.remove_module("which").unwrap_err(),
            cluster.module("which").unwrap_err(),
            cluster.module_bytes("which").unwrap_err(),
        ] {
            assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        }
        for (name, bytes) in [
            ("count", &first[..]),
            ("with space", &first),
            ("", &first),
            ("broken", b"\0asm nothing"),
        ] {
            let refused = cluster.add_module(name, bytes, CALLABLE).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{name}: {refused}");
        }
        assert!(cluster.modules().unwrap().is_empty());
    });
}

#[test]
fn modules_survive_the_restart_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::embedded(dir.path()).unwrap();
    let record = cluster.add_module("threshold", &example("threshold"), CALLABLE).unwrap();
    drop(cluster);
    let cluster = Cluster::embedded(dir.path()).unwrap();
    assert_eq!(cluster.modules().unwrap(), [record]);
    let file = filled(&cluster, "/file", &[vec![1, 200]]);
    let results = call(&cluster, &file, "threshold", "level=90").unwrap();
    assert_eq!(results[&Some(place(0))], [0, 255]);
}

/// Asks a node to call a module as a user.
fn call_as(client: &RawClient, name: &str) -> Result<Reply, Failure> {
    let opened = client.open("/file", Access::READ).unwrap();
    let parts = (0..4).map(|subfile| part(&opened, subfile)).collect();
    let work = ProcessWork {
        grant: opened.grant,
        parts,
        extents: ExtentSelection::All,
        operation: name.to_owned(),
        target: None,
        is_traced: false,
    };
    let mut reply = client.ask(Request::Process(ProcessRequest::Begin { call: 1, work }));
    while let Ok(Reply::Processed(update)) = &reply
        && !update.is_over
    {
        reply = client.ask(Request::Process(ProcessRequest::More { call: 1 }));
    }
    reply
}

#[test]
fn the_mode_says_who_may_read_replace_and_call_a_module() {
    const OWNER: u32 = 1001;
    const OTHER: u32 = 1002;
    let bytes = module("PARIO_EXPORT(pario_process) { return pario_nothing(); }");
    for transport in [Transport::Tcp, Transport::TwoNodes] {
        let site = Site::new(transport);
        let _file = filled(&site.cluster, "/file", &random_bodies(8, 10));
        site.cluster.set_mode("/file", 0o644).unwrap();
        let address = tcp_of(&site.nodes[0].address());
        let key = site.dir.path().join("key");
        let client = |uid| RawClient::connect(address, &key, uid, "user");
        let (owner, other) = (client(OWNER), client(OTHER));
        let add = |client: &RawClient, mode| {
            let request = ModuleRequest::Add { name: "mine".to_owned(), mode };
            client.ask_with(Request::Module(request), vec![bytes.clone().into()])
        };
        let ask = |client: &RawClient, fetch: bool| {
            let name = "mine".to_owned();
            client.ask(Request::Module(match fetch {
                true => ModuleRequest::Fetch { name },
                false => ModuleRequest::Remove { name },
            }))
        };
        let denied = |result: Result<Reply, Failure>, action: &str| match result {
            Err(Failure::ModuleDenied { uid, action: found, .. }) => {
                assert_eq!((uid, &*found), (OTHER, action));
            }
            other => panic!("{other:?}"),
        };
        add(&owner, 0o700).unwrap();
        call_as(&owner, "mine").unwrap();
        denied(call_as(&other, "mine"), "call it");
        denied(ask(&other, true), "read it");
        denied(ask(&other, false), "remove it");
        denied(add(&other, 0o777), "replace it");
        add(&owner, 0o711).unwrap();
        call_as(&other, "mine").unwrap();
        denied(ask(&other, true), "read it");
        add(&owner, 0o766).unwrap();
        denied(call_as(&other, "mine"), "call it");
        ask(&other, true).unwrap();
        denied(add(&other, 0o777), "change its mode");
        add(&other, 0o766).unwrap();
        let Ok(Reply::Module(record)) = ask(&owner, true) else { panic!("the owner may read") };
        assert_eq!(record.uid, OWNER, "a module keeps its owner");
        ask(&owner, false).unwrap();
    }
}

/// Another user's calls go on while one user calls endless modules as often as it may.
#[test]
fn endless_modules_leave_other_users_alone() {
    const UID: u32 = 1001;
    let endless = module("PARIO_EXPORT(pario_process) { for (volatile int i = 0;; i++) {} }");
    let site = Site::new(Transport::Tcp);
    let file = filled(&site.cluster, "/file", &random_bodies(8, 10));
    site.cluster.set_mode("/file", 0o644).unwrap();
    site.cluster.add_module("endless", &endless, CALLABLE).unwrap();
    let address = tcp_of(&site.nodes[0].address());
    let key = site.dir.path().join("key");
    let mut served = 0;
    std::thread::scope(|scope| {
        let calls = (0..24).map(|_| {
            scope.spawn(|| call_as(&RawClient::connect(address, &key, UID, "user"), "endless"))
        });
        let calls: Vec<_> = calls.collect();
        while calls.iter().any(|call| !call.is_finished()) {
            call(&site.cluster, &file, "count", "").unwrap();
            served += 1;
        }
        let mut refusals = 0;
        for call in calls {
            match call.join().unwrap() {
                Err(Failure::Operation { why, .. }) => {
                    assert!(why.contains("used up its fuel"), "{why}");
                }
                Err(Failure::LimitReached { what, .. }) => {
                    assert_eq!(&*what, "calls of modules");
                    refusals += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        println!("{refusals} of 24 calls refused, {served} calls served");
    });
    assert!(served > 0, "calls of another user were served at the same time");
    assert_eq!(call(&site.cluster, &file, "count", "").unwrap().len(), 1);
}

/// One user cannot store more than its share, and a thousand bad modules leave no trace.
#[test]
fn a_thousand_bad_modules_are_refused() {
    let site = Site::new(Transport::Tcp);
    let address = tcp_of(&site.nodes[0].address());
    let client = RawClient::connect(address, &site.dir.path().join("key"), 1001, "user");
    let add = |number: usize, bytes: Vec<u8>| {
        let request = ModuleRequest::Add { name: format!("m{number}"), mode: 0o700 };
        client.ask_with(Request::Module(request), vec![bytes.into()])
    };
    let good = module("PARIO_EXPORT(pario_process) { return pario_nothing(); }");
    let began = Instant::now();
    for number in 0..1000 {
        let mut bytes = good.clone();
        // Magic number and version.
        bytes[number % 8] ^= 1 + u8::try_from(number / 8).unwrap();
        let refused = add(number, bytes).unwrap_err();
        assert!(matches!(refused, Failure::Invalid(_)), "{number}: {refused}");
    }
    println!("a thousand refusals take {:?}", began.elapsed());
    assert!(site.cluster.modules().unwrap().is_empty());
    for number in 0..64 {
        add(number, good.clone()).unwrap();
    }
    let refused = add(64, good.clone()).unwrap_err();
    assert!(refused.to_string().starts_with("user 1001 has 64 stored modules"), "{refused}");
    add(63, good.clone()).expect("a stored one can be replaced");
    site.cluster.add_module("of-root", &good, 0o700).expect("others have their own share");
}
