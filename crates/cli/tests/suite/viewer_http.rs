//! The viewer's HTTP API: pictures, refusals, fair queueing, and access.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::command::{Sandbox, ServerProcess, stderr};
use crate::viewer::{Answer, PhantomSpec, ViewerSession, address, get, reference, send, start};
use pario::Cluster;
use pario_image::{Pixel, Plane, Sample, Volume, VolumeOptions};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

const COLOUR: PhantomSpec<'_> = ("/body", [70, 60, 50], [1.0, 1.0, 2.0], Pixel::RGB);
const GREY: PhantomSpec<'_> = ("/grey", [40, 40, 30], [1.0; 3], Pixel::GREY);

const SLICE: &str = "/api/volumes/0/slice?origin=0,0,50&right=1,0,0&down=0,1,0&width=70&height=60";
const LARGE: &str = "/api/volumes/0/slice?origin=0,0,50&right=1,0,0&down=0,1,0&width=512\
                     &height=512&zoom=8";

#[test]
fn pictures_are_the_slices() {
    let deep = Pixel::new(Sample::U16, 1).unwrap();
    let made = [COLOUR, GREY, ("/deep", [40, 50, 30], [0.5, 1.0, 1.0], deep)];
    let session = ViewerSession::of(&made, &[]);
    for query in [
        "origin=0,0,50&right=1,0,0&down=0,1,0&width=70&height=60",
        "origin=-10,-5,3&right=0.6,0.2,0.9&down=-0.1,0.7,0.4&width=91&height=77&zoom=1.7",
        "origin=0,20,0&right=1,0,0&down=0,0,1&width=33&height=200&zoom=0.8&interpolation=trilinear",
        "origin=4000,0,0&right=1,0,0&down=0,0,1&width=5&height=5",
    ] {
        for (number, volume) in session.volumes.iter().enumerate() {
            let path = format!("/api/volumes/{number}/slice?{query}");
            let (answer, expected) = (session.get(&path), reference(volume, &path));
            let (_, _, pixels) = answer.pixels();
            if volume.description().pixel == deep {
                let values =
                    expected.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
                let steps = values.map(|value| (f64::from(value) / 257.0).round());
                assert!(steps.eq(pixels.into_iter().map(f64::from)), "{path}");
            } else {
                assert_eq!(pixels, expected, "{path}");
            }
            let jpeg = session.get(&format!("{path}&format=jpeg&quality=50"));
            assert!(jpeg.status == 200 && jpeg.body.starts_with(b"\xff\xd8\xff"), "{path}");
            assert_eq!(jpeg.headers["content-type"], "image/jpeg");
        }
    }
}

#[test]
fn a_window_makes_some_values_black_and_some_white() {
    let session = ViewerSession::of(&[GREY], &[]);
    let path = "/api/volumes/0/slice?origin=0,20,0&right=1,0,0&down=0,0,1&width=40&height=30";
    let values = reference(&session.volumes[0], path);
    let (_, _, steps) = session.get(&format!("{path}&low=50&high=150")).pixels();
    let expected = values
        .iter()
        .map(|value| ((f64::from(*value) - 50.0) / 100.0 * 255.0).round().clamp(0.0, 255.0));
    assert!(expected.eq(steps.iter().map(|step| f64::from(*step))));
    assert_ne!(values, steps);
}

#[test]
fn a_signed_volume_opens_with_a_window_from_its_values_on_black() {
    let signed = Pixel::new(Sample::I16, 1).unwrap();
    let session = ViewerSession::of(&[("/ct", [40, 40, 30], [1.0; 3], signed), GREY], &[]);
    let facts = session.json("/api/volumes/0");
    assert_eq!(facts["pixel"]["range"], serde_json::json!([-32_768.0, 32_767.0]));
    let known = session.volumes[0].statistics().expect("recorded");
    assert_eq!(facts["values"]["minimum"], known.minimum);
    assert_eq!(facts["values"]["percentile_99"], known.percentile_99);
    let window = known.window().expect("a body has several values");
    assert_eq!(facts["window"], serde_json::json!(window));
    let unknown = session.json("/api/volumes/1");
    assert_eq!(unknown["window"], serde_json::json!([0.0, 255.0]));
    assert_eq!(unknown["values"], serde_json::Value::Null);
    // The nodes compute on request what the header does not record.
    let found = session.volumes[1].compute_statistics().unwrap().expect("grey");
    let computed = session.json("/api/volumes/1/values");
    assert_eq!(computed["values"]["minimum"], found.minimum);
    assert_eq!(computed["values"]["percentile_99"], found.percentile_99);
    assert_eq!(computed["window"], serde_json::json!(found.window().unwrap()));
    assert_eq!(session.json("/api/volumes/1")["values"], computed["values"]);
    let again = Volume::open(&session.cluster, "/grey").unwrap();
    assert_eq!(again.statistics(), None, "the viewer writes nothing");

    let path = "/api/volumes/0/slice?origin=0,20,0&right=1,0,0&down=0,0,1&width=40&height=30";
    let values = reference(&session.volumes[0], path);
    let steps = |low: f64, high: f64| -> Vec<u8> {
        let step = |bytes: &[u8]| {
            let share = (signed.sample().value(bytes) - low) / (high - low);
            format!("{:.0}", (share.clamp(0.0, 1.0) * 255.0).round()).parse().unwrap()
        };
        values.chunks_exact(2).map(step).collect()
    };
    assert_eq!(session.get(path).pixels().2, steps(window[0], window[1]));
    let other = session.get(&format!("{path}&low=-1000&high=20000"));
    assert_eq!(other.pixels().2, steps(-1000.0, 20_000.0));

    // Outside the volume it is black, also if 0 is inside the window.
    let outside = "/api/volumes/0/slice?origin=4000,0,0&right=1,0,0&down=0,0,1&width=5&height=5";
    let outside = session.get(&format!("{outside}&low=-1000&high=1000"));
    assert_eq!(outside.pixels().2, [0; 25]);
}

#[test]
fn outside_of_the_volume_it_is_black_or_transparent_whatever_the_window() {
    let signed = Pixel::new(Sample::I16, 1).unwrap();
    let made = [GREY, ("/ct", [40, 40, 30], [1.0; 3], signed), COLOUR];
    let session = ViewerSession::of(&made, &[]);
    for (number, channels) in [(0, 1), (1, 1), (2, 3)] {
        let path = format!(
            "/api/volumes/{number}/slice?origin=-10,0,9&right=1,0,0&down=0,1,0&width=20&height=3"
        );
        for window in ["low=-1000&high=1000", "low=-80&high=175", "low=1&high=2", "low=-9&high=-8"]
        {
            for interpolation in ["nearest", "trilinear"] {
                let path = format!("{path}&{window}&interpolation={interpolation}");
                let (_, _, steps) = session.get(&path).pixels();
                let clear = session.get(&format!("{path}&outside=transparent")).pixels().2;
                for (row, clear) in
                    steps.chunks_exact(20 * channels).zip(clear.chunks_exact(20 * (channels + 1)))
                {
                    assert!(row[..10 * channels].iter().all(|step| *step == 0), "{path} {row:?}");
                    for (at, pixel) in clear.chunks_exact(channels + 1).enumerate() {
                        let alpha = if at < 10 { 0 } else { 255 };
                        assert_eq!(pixel[channels], alpha, "{path} {at}");
                        let step = &row[at * channels..(at + 1) * channels];
                        assert_eq!(&pixel[..channels], step, "{path} {at}");
                    }
                }
            }
        }
        let jpeg = session.get(&format!("{path}&outside=transparent&format=jpeg"));
        assert!(jpeg.body.starts_with(b"\xff\xd8\xff"));
    }
}

#[test]
fn the_values_of_a_voxel_are_told() {
    let signed = Pixel::new(Sample::I16, 1).unwrap();
    let session = ViewerSession::of(&[COLOUR, ("/ct", [40, 40, 30], [0.5, 0.5, 2.0], signed)], &[]);
    for (number, at, voxel) in [
        (0, "30.2,19.7,50.9", [30.0, 20.0, 50.0]),
        (1, "10,7.5,20.3", [10.0, 7.5, 20.0]),
        (1, "0,0,0", [0.0; 3]),
        (1, "19.7,19.5,58", [19.5, 19.5, 58.0]),
    ] {
        let volume = &session.volumes[number];
        let plane = Plane::spanned(voxel, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).size(1, 1);
        let slice = volume.slice(plane).unwrap();
        let sample = slice.pixel().sample();
        let values: Vec<f64> =
            slice.data().chunks_exact(sample.bytes()).map(|bytes| sample.value(bytes)).collect();
        let told = session.json(&format!("/api/volumes/{number}/voxel?at={at}"));
        assert_eq!(told["values"], serde_json::json!(values), "{at}");
    }
    let told = session.json("/api/volumes/1/voxel?at=-1,0,0&client=me&view=cursor&sequence=1");
    assert_eq!(told["values"], serde_json::Value::Null);
    for (query, reason) in
        [("", "at is missing"), ("?at=1,2", "three numbers"), ("?zoom=1", "zoom")]
    {
        let answer = session.get(&format!("/api/volumes/0/voxel{query}"));
        assert_eq!(answer.status, 400);
        assert!(answer.refusal().contains(reason), "{query}: {}", answer.refusal());
    }
}

#[test]
fn what_a_slice_has_cost_is_told() {
    let session = ViewerSession::of(&[COLOUR], &[]);
    let first = session.get(SLICE);
    assert!(first.figure("x-pario-milliseconds") > 0.0);
    // Three boxes of 32 voxels to the right, two down, in one layer of boxes.
    assert_eq!(first.figure("x-pario-extents"), 6.0);
    assert!(first.figure("x-pario-bytes-read") > 6.0 * 3.0 * 1000.0);
    let again = session.get(SLICE);
    assert_eq!(again.figure("x-pario-cache-hits"), 6.0);
    assert_eq!(again.figure("x-pario-turn"), 2.0);
}

#[test]
fn volumes_and_the_api_are_described() {
    let session = ViewerSession::of(&[COLOUR, GREY], &[]);
    let all = session.json("/api/volumes");
    assert_eq!(all["volumes"][1]["path"], "/grey");
    assert_eq!(all["volumes"].as_array().unwrap().len(), 2);
    let facts = session.json("/api/volumes/0");
    assert_eq!(facts["name"], "body");
    assert_eq!(facts["shape"], serde_json::json!([70, 60, 50]));
    assert_eq!(facts["spacing"], serde_json::json!([1.0, 1.0, 2.0]));
    assert_eq!(facts["centre"], serde_json::json!([34.5, 29.5, 49.0]));
    assert_eq!(facts["pixel"]["sample"], "u8");
    assert_eq!(facts["pixel"]["channels"], 3);
    let described = session.get("/api/openapi.yaml").text();
    assert!(described.starts_with("openapi: 3.1"), "{described}");
    for said in ["/api/volumes/{number}/slice:", "/api/status:", "X-Pario-Turn:", "name: sequence"]
    {
        assert!(described.contains(said), "{said}");
    }
}

#[test]
fn wild_queries_are_refused_with_a_sentence() {
    let session = ViewerSession::of(&[GREY], &[]);
    let with = |name: &str, value: &str| {
        let good = [
            ("origin", "0,0,5"),
            ("right", "1,0,0"),
            ("down", "0,1,0"),
            ("width", "20"),
            ("height", "20"),
        ];
        let others = good.iter().filter(|(other, _)| *other != name);
        let query: Vec<_> = others.map(|(name, value)| format!("{name}={value}")).collect();
        format!("/api/volumes/0/slice?{}&{name}={value}", query.join("&"))
    };
    assert_eq!(session.get(&with("zoom", "1")).status, 200);
    for (path, status, told) in [
        (with("width", "4097"), 400, "1 to 4096"),
        (with("height", "0"), 400, "1 to 4096"),
        (with("width", "-1"), 400, "not a number"),
        (with("width", "99999999999999999999"), 400, "not a number"),
        (with("right", "NaN,0,0"), 400, "finite"),
        (with("right", "0,0,0"), 400, "direction"),
        (with("down", "inf,0,0"), 400, "finite"),
        (with("down", "1e300,0,0"), 400, "voxels away"),
        (with("origin", "1,2"), 400, "three numbers"),
        (with("origin", "nonsense"), 400, "three numbers"),
        (with("zoom", "0"), 400, "zoom"),
        (with("zoom", "-1"), 400, "zoom"),
        (with("zoom", "NaN"), 400, "zoom"),
        (with("zoom", "1e-300"), 400, "voxels away"),
        (with("quality", "0"), 400, "1 to 100"),
        (with("quality", "300"), 400, "not a number"),
        (with("format", "gif"), 400, "png or jpeg"),
        (with("interpolation", "cubic"), 400, "nearest or trilinear"),
        (with("low", "300"), 400, "the lower one"),
        (with("high", "NaN"), 400, "finite"),
        (with("sequence", "x"), 400, "not a number"),
        (with("client", &"x".repeat(65)), 400, "limit is 64"),
        (with("outside", "grey"), 400, "black or transparent"),
        (with("widht", "3"), 400, "no parameter \"widht\""),
        ("/api/volumes/0/slice".to_owned(), 400, "missing"),
        ("/api/volumes/1/slice?width=1".to_owned(), 404, "no volume"),
        ("/api/volumes/x".to_owned(), 404, "no volume"),
        ("/api/volumes/-1".to_owned(), 404, "no volume"),
        ("/api/volumes/%2e%2e/".to_owned(), 404, "no such page"),
        ("/../Cargo.toml".to_owned(), 404, "no such page"),
    ] {
        let answer = session.get(&path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.refusal().contains(told), "{path}: {}", answer.refusal());
    }
    let host = format!("HTTP/1.1\r\nHost: {}", session.address);
    let posted = Answer::read(send(&session.address, &format!("POST /api/volumes {host}")));
    assert_eq!((posted.status, posted.refusal().as_str()), (405, "only GET is allowed"));
    // The server does not read an overlong request to its end, so the client need not write it all.
    let mut stream = TcpStream::connect(&session.address).unwrap();
    let _ = write!(stream, "GET /{} {host}\r\n\r\n", "x".repeat(200_000));
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    assert!(told.is_empty() || told.starts_with(b"HTTP/1.1 4"), "{}", told.escape_ascii());
    assert_eq!(session.get(&with("zoom", "1")).status, 200);
}

#[test]
fn a_thousand_requests_at_once_are_borne() {
    let session = ViewerSession::of(&[COLOUR], &[]);
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(4096, |most| most.min(4096));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
    let asked: Vec<_> = (0..1000)
        .map(|number| start(&session.address, &format!("{LARGE}&client={}", number % 3)))
        .collect();
    let answers: Vec<_> = asked.into_iter().map(Answer::read).collect();
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!(count(200) + count(429), 1000);
    assert!(count(200) >= 3 * 64, "{}", count(200));
    let refused = answers.iter().find(|answer| answer.status == 429);
    assert!(refused.is_none_or(|answer| answer.refusal().contains("64 requests of this client")));
    assert!(session.peak_kib() < 512 << 10, "{} KiB", session.peak_kib());
    assert_eq!(session.get(SLICE).status, 200);
}

#[test]
fn newer_requests_make_older_ones_stale() {
    let session = ViewerSession::of(&[COLOUR], &["--workers", "1"]);
    session.node.pause();
    let ask = |view: &str, sequence: u32| {
        let path = format!("{SLICE}&client=me&view={view}&sequence={sequence}");
        start(&session.address, &path)
    };
    let running = ask("axial", 1);
    session.wait_for(|status| status["running"] == 1);
    let [older, other] = [ask("axial", 2), ask("coronal", 1)];
    session.wait_for(|status| status["waiting"] == 2);
    let newer = ask("axial", 3);
    // The stale request is answered while the node is paused: no work was done for it.
    let older = Answer::read(older);
    assert_eq!(older.status, 409);
    assert!(older.refusal().contains("newer request"));
    session.wait_for(|status| status["waiting"] == 2);
    assert_eq!(Answer::read(ask("axial", 2)).status, 409);
    session.node.resume();
    for kept in [running, other, newer] {
        assert_eq!(Answer::read(kept).status, 200);
    }
    assert_eq!(session.json("/api/status")["begun"], 3);
}

#[test]
fn a_client_that_leaves_is_forgotten() {
    let session = ViewerSession::of(&[COLOUR], &["--workers", "1"]);
    session.node.pause();
    let running = start(&session.address, SLICE);
    session.wait_for(|status| status["running"] == 1);
    let waiting = start(&session.address, SLICE);
    session.wait_for(|status| status["waiting"] == 1);
    drop(waiting);
    session.wait_for(|status| status["waiting"] == 0);
    session.node.resume();
    assert_eq!(Answer::read(running).status, 200);
    assert_eq!(session.get(SLICE).figure("x-pario-turn"), 2.0);
}

#[test]
fn a_storm_of_one_client_does_not_keep_others_waiting() {
    let session = ViewerSession::of(&[COLOUR], &["--workers", "2"]);
    session.node.pause();
    let storm = |client: &str| start(&session.address, &format!("{SLICE}&client={client}"));
    let running = [storm("storm"), storm("storm")];
    session.wait_for(|status| status["running"] == 2);
    let stormed: Vec<_> = (0..500).map(|_| storm("storm")).collect();
    session.wait_for(|status| status["waiting"] == 64);
    let calm = storm("calm");
    session.wait_for(|status| status["waiting_clients"] == 2);
    session.node.resume();
    // Two were running, and the next one was of the other client.
    assert!(Answer::read(calm).figure("x-pario-turn") <= 4.0);
    let statuses: Vec<_> = stormed.into_iter().map(|one| Answer::read(one).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 64);
    assert!(statuses.iter().all(|status| [200, 429].contains(status)));
    assert!(running.into_iter().all(|one| Answer::read(one).status == 200));
}

/// Paths that need a token.
const SECRETS: [&str; 4] = ["/api/volumes", "/api/volumes/0", SLICE, "/api/status"];

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn a_token_is_needed_unless_the_user_does_without() {
    let session = ViewerSession::with_token(&[GREY], &[], |_, _| {});
    let token = session.token().to_owned();
    assert_eq!(token.len(), 32);
    for path in SECRETS {
        let answer = session.get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.refusal().contains("token"), "{path}");
        assert_eq!(session.get_with(path, &bearer(&token)).status, 200, "{path}");
        assert_eq!(session.get_with(path, &bearer("guess")).status, 401, "{path}");
    }
    // The token is not accepted in addresses of the API, because addresses are logged.
    assert_eq!(session.get(&format!("/api/volumes?token={token}")).status, 401);
    // The page itself needs no token, and can ask for it.
    let page = session.get("/");
    assert_eq!(page.status, 200);
    for (name, value) in [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")]
    {
        assert_eq!(page.headers[name], value);
    }
    assert_eq!(session.get("/api/status").headers["cache-control"], "no-store");
}

#[test]
fn the_token_moves_from_the_address_into_a_cookie() {
    let session = ViewerSession::with_token(&[GREY], &[], |_, _| {});
    let token = session.token();
    let opened = session.get(&format!("/?token={token}"));
    assert_eq!((opened.status, opened.headers["location"].as_str()), (303, "./"));
    assert_eq!(opened.headers["cache-control"], "no-store");
    let cookie = &opened.headers["set-cookie"];
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(token), "{cookie}");
    let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
    let with = |cookie: &str| session.get_with(SLICE, &format!("Cookie: {cookie}\r\n")).status;
    assert_eq!(with(&format!("{name}={value}")), 200);
    assert_eq!(with(&format!("other=1; {name}={value}; more=2")), 200);
    for wrong in [format!("{name}={token}"), format!("{name}="), format!("x{name}={value}")] {
        assert_eq!(with(&wrong), 401, "{wrong}");
    }
    // A wrong token also redirects to the page, which asks for the right one.
    let wrong = session.get("/?token=guess");
    assert_eq!(wrong.status, 303);
    assert!(!wrong.headers.contains_key("set-cookie"));
}

#[test]
fn a_token_comes_from_a_file_or_the_environment_and_from_no_argument() {
    let from_file = |sandbox: &Sandbox, _: &mut std::process::Command| {
        write_token(sandbox, "a-secret-in-a-file\n", 0o600);
    };
    let session = ViewerSession::with_token(&[GREY], &["--token-file", "token"], from_file);
    let line = &session.viewer.lines[0];
    assert!(line.ends_with("/ (the token is in token)"), "{line}");
    assert_eq!(session.get_with(SLICE, &bearer("a-secret-in-a-file")).status, 200);
    assert_eq!(session.get(SLICE).status, 401);

    let from_environment = |_: &Sandbox, command: &mut std::process::Command| {
        command.env("PARIO_VIEW_TOKEN", "a-secret-around-it");
    };
    let session = ViewerSession::with_token(&[GREY], &[], from_environment);
    let line = &session.viewer.lines[0];
    assert!(line.ends_with("/ (the token is in PARIO_VIEW_TOKEN)"), "{line}");
    assert_eq!(session.get_with(SLICE, &bearer("a-secret-around-it")).status, 200);
    let arguments = std::fs::read(format!("/proc/{}/cmdline", session.viewer.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains("secret"));
}

#[test]
fn tokens_that_others_can_read_are_refused() {
    let sandbox = Sandbox::empty();
    let cluster = Cluster::embedded(sandbox.file("data")).unwrap();
    VolumeOptions::new([30, 30, 20], Pixel::GREY).create(&cluster, "/body").unwrap();
    drop(cluster);
    let refused = |options: &[&str]| sandbox.refused(2, &[&["view", "/body"], options].concat());
    let told = refused(&["--token", "a-secret-for-all"]);
    assert!(told.contains("--token-file") && told.contains("PARIO_VIEW_TOKEN"), "{told}");
    assert!(!told.contains("a-secret-for-all"), "{told}");
    for mode in [0o644, 0o640, 0o604] {
        write_token(&sandbox, "a-secret-in-a-file", mode);
        let told = refused(&["--token-file", "token"]);
        assert!(told.contains("other users can read it") && told.contains("chmod 600"), "{told}");
    }
    write_token(&sandbox, "short", 0o600);
    assert!(refused(&["--token-file", "token"]).contains("12 to 128"));
    assert!(refused(&["--token-file", "nowhere"]).contains("nowhere: No such file"));
    let told = refused(&["--no-token", "--listen", "0.0.0.0"]);
    assert!(told.contains("--no-token is for loopback addresses"), "{told}");
    assert!(refused(&["--no-token", "--token-file", "token"]).contains("cannot be used with"));
}

fn write_token(sandbox: &Sandbox, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(sandbox.file("token"), text).unwrap();
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(sandbox.file("token"), permissions).unwrap();
}

#[test]
fn beyond_this_machine_there_is_always_a_token() {
    let session = ViewerSession::with_token(&[GREY], &["--listen", "0.0.0.0"], |_, _| {});
    assert_eq!(session.token().len(), 32);
    let (_, port) = session.address.rsplit_once(':').unwrap();
    let address = format!("127.0.0.1:{port}");
    assert_eq!(get(&address, "/api/volumes").status, 401);
    let head = format!("GET /api/volumes HTTP/1.1\r\n{}Host: x", bearer(session.token()));
    assert_eq!(Answer::read(send(&address, &head)).status, 200);
}

#[test]
fn foreign_names_and_pages_get_nothing() {
    let allowed = "https://lab.example";
    let session = ViewerSession::of(&[GREY], &["--allow-origin", allowed]);
    let ask = |method: &str, host: &str, origin: &str| {
        let head = format!("{method} /api/volumes HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}");
        Answer::read(send(&session.address, &head))
    };
    let rebound = ask("GET", "evil.example", "http://evil.example");
    assert_eq!(rebound.status, 403);
    assert!(rebound.refusal().contains("localhost"));
    let cors = "access-control-allow-origin";
    let foreign = ask("GET", "localhost", "https://evil.example");
    assert!(foreign.status == 200 && !foreign.headers.contains_key(cors));
    assert_eq!(foreign.headers["cross-origin-resource-policy"], "same-origin");
    assert_eq!(ask("OPTIONS", "localhost", "https://evil.example").status, 405);
    let friend = ask("GET", "localhost", allowed);
    assert_eq!((friend.status, friend.headers[cors].as_str()), (200, allowed));
    let question = ask("OPTIONS", "localhost", allowed);
    assert_eq!((question.status, question.headers[cors].as_str()), (204, allowed));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let session = ViewerSession::of(&[GREY], &[]);
    let page = session.get("/");
    assert!(page.headers["content-security-policy"].contains("default-src 'none'"));
    let text = page.text();
    assert!(!text.contains("http://") || text.matches("http://").count() == 1, "only of SVG");
    for (file, kind) in [("/style.css", "text/css"), ("/viewer.js", "text/javascript")] {
        let answer = session.get(file);
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.headers["content-type"].starts_with(kind), "{file}");
    }
}

#[test]
fn a_cluster_inside_of_the_command_will_do_and_a_signal_ends_it() {
    let sandbox = Sandbox::empty();
    let cluster = Cluster::embedded(sandbox.file("data")).unwrap();
    let body = VolumeOptions::new([30, 30, 20], Pixel::GREY).create(&cluster, "/body").unwrap();
    body.generate(3).unwrap();
    let path = "/api/volumes/0/slice?origin=0,0,9&right=1,0,0&down=0,1,0&width=30&height=30";
    let expected = reference(&body, path);
    drop((body, cluster));
    for signal in [Signal::INT, Signal::TERM] {
        let viewer = ServerProcess::start(sandbox.on_cluster(&["view", "/body", "--no-token"]));
        assert_eq!(get(&address(&viewer.lines[0]), path).pixels(), (30, 30, expected.clone()));
        viewer.signal(signal);
        let (status, rest) = viewer.wait();
        assert_eq!((status.code(), rest.as_str()), (Some(0), ""));
    }
}

#[test]
fn what_cannot_be_shown_is_told() {
    let sandbox = Sandbox::empty();
    sandbox.write("x", 100, 1);
    sandbox.ok(&["cp", "x", "/x"]);
    assert!(sandbox.refused(3, &["view", "/nothing"]).contains("/nothing"));
    assert!(sandbox.refused(2, &["view", "/x"]).contains("/x: not an image or volume"));
    for (arguments, told) in [
        (&["view"][..], "VOLUME"),
        (&["view", "body"], "relative"),
        (&["view", "/x", "--listen", "localhost"], "must be an address"),
        (&["view", "/x", "--allow-origin", "*"], "must be an origin"),
        (&["view", "/x", "--workers", "0"], "workers"),
    ] {
        let output = sandbox.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
    }
}
