//! The viewer as programs see it: pictures that are the slices, refusals, turns, and who may ask.

mod command;
mod viewing;

use std::io::{Read, Write};
use std::net::TcpStream;

use command::{Served, Site, stderr};
use pario::Cluster;
use pario_image::{Pixel, Plane, Sample, Volume, VolumeOptions};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use viewing::{Answer, Made, Viewing, address, get, reference, send, start};

const COLOUR: Made<'_> = ("/body", [70, 60, 50], [1.0, 1.0, 2.0], Pixel::RGB);
const GREY: Made<'_> = ("/grey", [40, 40, 30], [1.0; 3], Pixel::GREY);

const SLICE: &str = "/api/volumes/0/slice?origin=0,0,50&right=1,0,0&down=0,1,0&width=70&height=60";
const LARGE: &str = "/api/volumes/0/slice?origin=0,0,50&right=1,0,0&down=0,1,0&width=512\
                     &height=512&zoom=8";

#[test]
fn pictures_are_the_slices() {
    let deep = Pixel::new(Sample::U16, 1).unwrap();
    let made = [COLOUR, GREY, ("/deep", [40, 50, 30], [0.5, 1.0, 1.0], deep)];
    let viewing = Viewing::of(&made, &[]);
    for query in [
        "origin=0,0,50&right=1,0,0&down=0,1,0&width=70&height=60",
        "origin=-10,-5,3&right=0.6,0.2,0.9&down=-0.1,0.7,0.4&width=91&height=77&zoom=1.7",
        "origin=0,20,0&right=1,0,0&down=0,0,1&width=33&height=200&zoom=0.8&interpolation=trilinear",
        "origin=4000,0,0&right=1,0,0&down=0,0,1&width=5&height=5",
    ] {
        for (number, volume) in viewing.volumes.iter().enumerate() {
            let path = format!("/api/volumes/{number}/slice?{query}");
            let (answer, expected) = (viewing.get(&path), reference(volume, &path));
            let (_, _, pixels) = answer.pixels();
            if volume.description().pixel == deep {
                let values =
                    expected.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
                let steps = values.map(|value| (f64::from(value) / 257.0).round());
                assert!(steps.eq(pixels.into_iter().map(f64::from)), "{path}");
            } else {
                assert_eq!(pixels, expected, "{path}");
            }
            let jpeg = viewing.get(&format!("{path}&format=jpeg&quality=50"));
            assert!(jpeg.status == 200 && jpeg.body.starts_with(b"\xff\xd8\xff"), "{path}");
            assert_eq!(jpeg.headers["content-type"], "image/jpeg");
        }
    }
}

#[test]
fn a_window_makes_some_values_black_and_some_white() {
    let viewing = Viewing::of(&[GREY], &[]);
    let path = "/api/volumes/0/slice?origin=0,20,0&right=1,0,0&down=0,0,1&width=40&height=30";
    let values = reference(&viewing.volumes[0], path);
    let (_, _, steps) = viewing.get(&format!("{path}&low=50&high=150")).pixels();
    let expected = values
        .iter()
        .map(|value| ((f64::from(*value) - 50.0) / 100.0 * 255.0).round().clamp(0.0, 255.0));
    assert!(expected.eq(steps.iter().map(|step| f64::from(*step))));
    assert_ne!(values, steps);
}

#[test]
fn a_signed_volume_opens_with_a_window_from_its_values_on_black() {
    let signed = Pixel::new(Sample::I16, 1).unwrap();
    let viewing = Viewing::of(&[("/ct", [40, 40, 30], [1.0; 3], signed), GREY], &[]);
    let facts = viewing.json("/api/volumes/0");
    assert_eq!(facts["pixel"]["range"], serde_json::json!([-32_768.0, 32_767.0]));
    let known = viewing.volumes[0].statistics().expect("recorded");
    assert_eq!(facts["values"]["minimum"], known.minimum);
    assert_eq!(facts["values"]["percentile_99"], known.percentile_99);
    let window = known.window().expect("a body has several values");
    assert_eq!(facts["window"], serde_json::json!(window));
    let unknown = viewing.json("/api/volumes/1");
    assert_eq!(unknown["window"], serde_json::json!([0.0, 255.0]));
    assert_eq!(unknown["values"], serde_json::Value::Null);
    // The nodes find what a header does not say, when it is asked for.
    let found = viewing.volumes[1].compute_statistics().unwrap().expect("grey");
    let computed = viewing.json("/api/volumes/1/values");
    assert_eq!(computed["values"]["minimum"], found.minimum);
    assert_eq!(computed["values"]["percentile_99"], found.percentile_99);
    assert_eq!(computed["window"], serde_json::json!(found.window().unwrap()));
    assert_eq!(viewing.json("/api/volumes/1")["values"], computed["values"]);
    let again = Volume::open(&viewing.cluster, "/grey").unwrap();
    assert_eq!(again.statistics(), None, "the viewer writes nothing");

    let path = "/api/volumes/0/slice?origin=0,20,0&right=1,0,0&down=0,0,1&width=40&height=30";
    let values = reference(&viewing.volumes[0], path);
    let steps = |low: f64, high: f64| -> Vec<u8> {
        let step = |bytes: &[u8]| {
            let share = (signed.sample().value(bytes) - low) / (high - low);
            format!("{:.0}", (share.clamp(0.0, 1.0) * 255.0).round()).parse().unwrap()
        };
        values.chunks_exact(2).map(step).collect()
    };
    assert_eq!(viewing.get(path).pixels().2, steps(window[0], window[1]));
    let other = viewing.get(&format!("{path}&low=-1000&high=20000"));
    assert_eq!(other.pixels().2, steps(-1000.0, 20_000.0));

    // Outside of the volume it is black, also where 0 lies within the window.
    let outside = "/api/volumes/0/slice?origin=4000,0,0&right=1,0,0&down=0,0,1&width=5&height=5";
    let outside = viewing.get(&format!("{outside}&low=-1000&high=1000"));
    assert_eq!(outside.pixels().2, [0; 25]);
}

#[test]
fn outside_of_the_volume_it_is_black_or_transparent_whatever_the_window() {
    let signed = Pixel::new(Sample::I16, 1).unwrap();
    let made = [GREY, ("/ct", [40, 40, 30], [1.0; 3], signed), COLOUR];
    let viewing = Viewing::of(&made, &[]);
    for (number, channels) in [(0, 1), (1, 1), (2, 3)] {
        let path = format!(
            "/api/volumes/{number}/slice?origin=-10,0,9&right=1,0,0&down=0,1,0&width=20&height=3"
        );
        for window in ["low=-1000&high=1000", "low=-80&high=175", "low=1&high=2", "low=-9&high=-8"]
        {
            for interpolation in ["nearest", "trilinear"] {
                let path = format!("{path}&{window}&interpolation={interpolation}");
                let (_, _, steps) = viewing.get(&path).pixels();
                let clear = viewing.get(&format!("{path}&outside=transparent")).pixels().2;
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
        let jpeg = viewing.get(&format!("{path}&outside=transparent&format=jpeg"));
        assert!(jpeg.body.starts_with(b"\xff\xd8\xff"));
    }
}

#[test]
fn the_values_of_a_voxel_are_told() {
    let signed = Pixel::new(Sample::I16, 1).unwrap();
    let viewing = Viewing::of(&[COLOUR, ("/ct", [40, 40, 30], [0.5, 0.5, 2.0], signed)], &[]);
    for (number, at, voxel) in [
        (0, "30.2,19.7,50.9", [30.0, 20.0, 50.0]),
        (1, "10,7.5,20.3", [10.0, 7.5, 20.0]),
        (1, "0,0,0", [0.0; 3]),
        (1, "19.7,19.5,58", [19.5, 19.5, 58.0]),
    ] {
        let volume = &viewing.volumes[number];
        let plane = Plane::spanned(voxel, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).size(1, 1);
        let slice = volume.slice(plane).unwrap();
        let sample = slice.pixel().sample();
        let values: Vec<f64> =
            slice.data().chunks_exact(sample.bytes()).map(|bytes| sample.value(bytes)).collect();
        let told = viewing.json(&format!("/api/volumes/{number}/voxel?at={at}"));
        assert_eq!(told["values"], serde_json::json!(values), "{at}");
    }
    let told = viewing.json("/api/volumes/1/voxel?at=-1,0,0&client=me&view=cursor&sequence=1");
    assert_eq!(told["values"], serde_json::Value::Null);
    for (query, reason) in
        [("", "at is missing"), ("?at=1,2", "three numbers"), ("?zoom=1", "zoom")]
    {
        let answer = viewing.get(&format!("/api/volumes/0/voxel{query}"));
        assert_eq!(answer.status, 400);
        assert!(answer.refusal().contains(reason), "{query}: {}", answer.refusal());
    }
}

#[test]
fn what_a_slice_has_cost_is_told() {
    let viewing = Viewing::of(&[COLOUR], &[]);
    let first = viewing.get(SLICE);
    assert!(first.figure("x-pario-milliseconds") > 0.0);
    // Three boxes of 32 voxels to the right, two down, in one layer of boxes.
    assert_eq!(first.figure("x-pario-extents"), 6.0);
    assert!(first.figure("x-pario-bytes-read") > 6.0 * 3.0 * 1000.0);
    let again = viewing.get(SLICE);
    assert_eq!(again.figure("x-pario-cache-hits"), 6.0);
    assert_eq!(again.figure("x-pario-turn"), 2.0);
}

#[test]
fn volumes_and_the_api_are_described() {
    let viewing = Viewing::of(&[COLOUR, GREY], &[]);
    let all = viewing.json("/api/volumes");
    assert_eq!(all["volumes"][1]["path"], "/grey");
    assert_eq!(all["volumes"].as_array().unwrap().len(), 2);
    let facts = viewing.json("/api/volumes/0");
    assert_eq!(facts["name"], "body");
    assert_eq!(facts["shape"], serde_json::json!([70, 60, 50]));
    assert_eq!(facts["spacing"], serde_json::json!([1.0, 1.0, 2.0]));
    assert_eq!(facts["centre"], serde_json::json!([34.5, 29.5, 49.0]));
    assert_eq!(facts["pixel"]["sample"], "u8");
    assert_eq!(facts["pixel"]["channels"], 3);
    let described = viewing.get("/api/openapi.yaml").text();
    assert!(described.starts_with("openapi: 3.1"), "{described}");
    for said in ["/api/volumes/{number}/slice:", "/api/status:", "X-Pario-Turn:", "name: sequence"]
    {
        assert!(described.contains(said), "{said}");
    }
}

#[test]
fn wild_queries_are_refused_with_a_sentence() {
    let viewing = Viewing::of(&[GREY], &[]);
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
    assert_eq!(viewing.get(&with("zoom", "1")).status, 200);
    for (path, status, told) in [
        (with("width", "4097"), 400, "1 to 4096"),
        (with("height", "0"), 400, "1 to 4096"),
        (with("width", "-1"), 400, "no number"),
        (with("width", "99999999999999999999"), 400, "no number"),
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
        (with("quality", "300"), 400, "no number"),
        (with("format", "gif"), 400, "png or jpeg"),
        (with("interpolation", "cubic"), 400, "nearest or trilinear"),
        (with("low", "300"), 400, "the lower one"),
        (with("high", "NaN"), 400, "finite"),
        (with("sequence", "x"), 400, "no number"),
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
        let answer = viewing.get(&path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        assert!(answer.refusal().contains(told), "{path}: {}", answer.refusal());
    }
    let host = format!("HTTP/1.1\r\nHost: {}", viewing.address);
    let posted = Answer::read(send(&viewing.address, &format!("POST /api/volumes {host}")));
    assert_eq!((posted.status, posted.refusal().as_str()), (405, "only GET is known here"));
    // What is too long is not read to its end, so it need not be written to its end.
    let mut stream = TcpStream::connect(&viewing.address).unwrap();
    let _ = write!(stream, "GET /{} {host}\r\n\r\n", "x".repeat(200_000));
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    assert!(told.is_empty() || told.starts_with(b"HTTP/1.1 4"), "{}", told.escape_ascii());
    assert_eq!(viewing.get(&with("zoom", "1")).status, 200);
}

#[test]
fn a_thousand_requests_at_once_are_borne() {
    let viewing = Viewing::of(&[COLOUR], &[]);
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(4096, |most| most.min(4096));
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum }).unwrap();
    let asked: Vec<_> = (0..1000)
        .map(|number| start(&viewing.address, &format!("{LARGE}&client={}", number % 3)))
        .collect();
    let answers: Vec<_> = asked.into_iter().map(Answer::read).collect();
    let count = |status| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!(count(200) + count(429), 1000);
    assert!(count(200) >= 3 * 64, "{}", count(200));
    let refused = answers.iter().find(|answer| answer.status == 429);
    assert!(refused.is_none_or(|answer| answer.refusal().contains("64 requests of this client")));
    assert!(viewing.peak_kib() < 512 << 10, "{} KiB", viewing.peak_kib());
    assert_eq!(viewing.get(SLICE).status, 200);
}

#[test]
fn newer_requests_make_older_ones_stale() {
    let viewing = Viewing::of(&[COLOUR], &["--workers", "1"]);
    viewing.node.pause();
    let ask = |view: &str, sequence: u32| {
        let path = format!("{SLICE}&client=me&view={view}&sequence={sequence}");
        start(&viewing.address, &path)
    };
    let running = ask("axial", 1);
    viewing.wait_for(|status| status["running"] == 1);
    let [older, other] = [ask("axial", 2), ask("coronal", 1)];
    viewing.wait_for(|status| status["waiting"] == 2);
    let newer = ask("axial", 3);
    // It is answered while the node sleeps: nothing was done for it.
    let older = Answer::read(older);
    assert_eq!(older.status, 409);
    assert!(older.refusal().contains("newer request"));
    viewing.wait_for(|status| status["waiting"] == 2);
    assert_eq!(Answer::read(ask("axial", 2)).status, 409);
    viewing.node.resume();
    for kept in [running, other, newer] {
        assert_eq!(Answer::read(kept).status, 200);
    }
    assert_eq!(viewing.json("/api/status")["begun"], 3);
}

#[test]
fn whoever_goes_is_forgotten() {
    let viewing = Viewing::of(&[COLOUR], &["--workers", "1"]);
    viewing.node.pause();
    let running = start(&viewing.address, SLICE);
    viewing.wait_for(|status| status["running"] == 1);
    let waiting = start(&viewing.address, SLICE);
    viewing.wait_for(|status| status["waiting"] == 1);
    drop(waiting);
    viewing.wait_for(|status| status["waiting"] == 0);
    viewing.node.resume();
    assert_eq!(Answer::read(running).status, 200);
    assert_eq!(viewing.get(SLICE).figure("x-pario-turn"), 2.0);
}

#[test]
fn a_storm_of_one_client_does_not_keep_others_waiting() {
    let viewing = Viewing::of(&[COLOUR], &["--workers", "2"]);
    viewing.node.pause();
    let storm = |client: &str| start(&viewing.address, &format!("{SLICE}&client={client}"));
    let running = [storm("storm"), storm("storm")];
    viewing.wait_for(|status| status["running"] == 2);
    let stormed: Vec<_> = (0..500).map(|_| storm("storm")).collect();
    viewing.wait_for(|status| status["waiting"] == 64);
    let calm = storm("calm");
    viewing.wait_for(|status| status["waiting_clients"] == 2);
    viewing.node.resume();
    // Two were running, and one of the others' was the next.
    assert!(Answer::read(calm).figure("x-pario-turn") <= 4.0);
    let statuses: Vec<_> = stormed.into_iter().map(|one| Answer::read(one).status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 64);
    assert!(statuses.iter().all(|status| [200, 429].contains(status)));
    assert!(running.into_iter().all(|one| Answer::read(one).status == 200));
}

/// A token is needed for all of these.
const SECRETS: [&str; 4] = ["/api/volumes", "/api/volumes/0", SLICE, "/api/status"];

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn a_token_is_needed_unless_the_user_does_without() {
    let viewing = Viewing::with_token(&[GREY], &[], |_, _| {});
    let token = viewing.token().to_owned();
    assert_eq!(token.len(), 32);
    for path in SECRETS {
        let answer = viewing.get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.refusal().contains("token"), "{path}");
        assert_eq!(viewing.get_with(path, &bearer(&token)).status, 200, "{path}");
        assert_eq!(viewing.get_with(path, &bearer("guess")).status, 401, "{path}");
    }
    // The address of the API is not a place for it: addresses are written into logs.
    assert_eq!(viewing.get(&format!("/api/volumes?token={token}")).status, 401);
    // The page itself is no secret, and can ask for the token.
    let page = viewing.get("/");
    assert_eq!(page.status, 200);
    for (name, value) in [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")]
    {
        assert_eq!(page.headers[name], value);
    }
    assert_eq!(viewing.get("/api/status").headers["cache-control"], "no-store");
}

#[test]
fn the_token_moves_from_the_address_into_a_cookie() {
    let viewing = Viewing::with_token(&[GREY], &[], |_, _| {});
    let token = viewing.token();
    let opened = viewing.get(&format!("/?token={token}"));
    assert_eq!((opened.status, opened.headers["location"].as_str()), (303, "./"));
    assert_eq!(opened.headers["cache-control"], "no-store");
    let cookie = &opened.headers["set-cookie"];
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(token), "{cookie}");
    let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
    let with = |cookie: &str| viewing.get_with(SLICE, &format!("Cookie: {cookie}\r\n")).status;
    assert_eq!(with(&format!("{name}={value}")), 200);
    assert_eq!(with(&format!("other=1; {name}={value}; more=2")), 200);
    for wrong in [format!("{name}={token}"), format!("{name}="), format!("x{name}={value}")] {
        assert_eq!(with(&wrong), 401, "{wrong}");
    }
    // A wrong token leads to the page as well, which asks for the right one.
    let wrong = viewing.get("/?token=guess");
    assert_eq!(wrong.status, 303);
    assert!(!wrong.headers.contains_key("set-cookie"));
}

#[test]
fn a_token_comes_from_a_file_or_the_environment_and_from_no_argument() {
    let from_file = |site: &Site, _: &mut std::process::Command| {
        write_token(site, "a-secret-in-a-file\n", 0o600);
    };
    let viewing = Viewing::with_token(&[GREY], &["--token-file", "token"], from_file);
    let line = &viewing.viewer.lines[0];
    assert!(line.ends_with("/ (the token is in token)"), "{line}");
    assert_eq!(viewing.get_with(SLICE, &bearer("a-secret-in-a-file")).status, 200);
    assert_eq!(viewing.get(SLICE).status, 401);

    let from_environment = |_: &Site, command: &mut std::process::Command| {
        command.env("PARIO_VIEW_TOKEN", "a-secret-around-it");
    };
    let viewing = Viewing::with_token(&[GREY], &[], from_environment);
    let line = &viewing.viewer.lines[0];
    assert!(line.ends_with("/ (the token is in PARIO_VIEW_TOKEN)"), "{line}");
    assert_eq!(viewing.get_with(SLICE, &bearer("a-secret-around-it")).status, 200);
    let arguments = std::fs::read(format!("/proc/{}/cmdline", viewing.viewer.pid())).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains("secret"));
}

#[test]
fn tokens_that_others_can_read_are_refused() {
    let site = Site::empty();
    let cluster = Cluster::embedded(site.file("data")).unwrap();
    VolumeOptions::new([30, 30, 20], Pixel::GREY).create(&cluster, "/body").unwrap();
    drop(cluster);
    let refused = |options: &[&str]| site.refused(2, &[&["view", "/body"], options].concat());
    let told = refused(&["--token", "a-secret-for-all"]);
    assert!(told.contains("--token-file") && told.contains("PARIO_VIEW_TOKEN"), "{told}");
    assert!(!told.contains("a-secret-for-all"), "{told}");
    for mode in [0o644, 0o640, 0o604] {
        write_token(&site, "a-secret-in-a-file", mode);
        let told = refused(&["--token-file", "token"]);
        assert!(told.contains("other users can read it") && told.contains("chmod 600"), "{told}");
    }
    write_token(&site, "short", 0o600);
    assert!(refused(&["--token-file", "token"]).contains("12 to 128"));
    assert!(refused(&["--token-file", "nowhere"]).contains("nowhere: No such file"));
    let told = refused(&["--no-token", "--listen", "0.0.0.0"]);
    assert!(told.contains("--no-token is for loopback addresses"), "{told}");
    assert!(refused(&["--no-token", "--token-file", "token"]).contains("cannot be used with"));
}

fn write_token(site: &Site, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(site.file("token"), text).unwrap();
    let permissions = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(site.file("token"), permissions).unwrap();
}

#[test]
fn beyond_this_machine_there_is_always_a_token() {
    let viewing = Viewing::with_token(&[GREY], &["--listen", "0.0.0.0"], |_, _| {});
    assert_eq!(viewing.token().len(), 32);
    let (_, port) = viewing.address.rsplit_once(':').unwrap();
    let address = format!("127.0.0.1:{port}");
    assert_eq!(get(&address, "/api/volumes").status, 401);
    let head = format!("GET /api/volumes HTTP/1.1\r\n{}Host: x", bearer(viewing.token()));
    assert_eq!(Answer::read(send(&address, &head)).status, 200);
}

#[test]
fn foreign_names_and_pages_get_nothing() {
    let allowed = "https://lab.example";
    let viewing = Viewing::of(&[GREY], &["--allow-origin", allowed]);
    let ask = |method: &str, host: &str, origin: &str| {
        let head = format!("{method} /api/volumes HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}");
        Answer::read(send(&viewing.address, &head))
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
    let viewing = Viewing::of(&[GREY], &[]);
    let page = viewing.get("/");
    assert!(page.headers["content-security-policy"].contains("default-src 'none'"));
    let text = page.text();
    assert!(!text.contains("http://") || text.matches("http://").count() == 1, "only of SVG");
    for (file, kind) in [("/style.css", "text/css"), ("/viewer.js", "text/javascript")] {
        let answer = viewing.get(file);
        assert_eq!(answer.status, 200, "{file}");
        assert!(answer.headers["content-type"].starts_with(kind), "{file}");
    }
}

#[test]
fn a_cluster_inside_of_the_command_will_do_and_a_signal_ends_it() {
    let site = Site::empty();
    let cluster = Cluster::embedded(site.file("data")).unwrap();
    let body = VolumeOptions::new([30, 30, 20], Pixel::GREY).create(&cluster, "/body").unwrap();
    body.generate(3).unwrap();
    let path = "/api/volumes/0/slice?origin=0,0,9&right=1,0,0&down=0,1,0&width=30&height=30";
    let expected = reference(&body, path);
    drop((body, cluster));
    for signal in [Signal::INT, Signal::TERM] {
        let viewer = Served::start(site.on_cluster(&["view", "/body", "--no-token"]));
        assert_eq!(get(&address(&viewer.lines[0]), path).pixels(), (30, 30, expected.clone()));
        viewer.signal(signal);
        let (status, rest) = viewer.wait();
        assert_eq!((status.code(), rest.as_str()), (Some(0), ""));
    }
}

#[test]
fn what_cannot_be_shown_is_told() {
    let site = Site::empty();
    site.write("x", 100, 1);
    site.ok(&["cp", "x", "/x"]);
    assert!(site.refused(3, &["view", "/nothing"]).contains("/nothing"));
    assert!(site.refused(2, &["view", "/x"]).contains("/x: not an image or volume"));
    for (arguments, told) in [
        (&["view"][..], "VOLUME"),
        (&["view", "body"], "relative"),
        (&["view", "/x", "--listen", "localhost"], "not an address"),
        (&["view", "/x", "--allow-origin", "*"], "not an origin"),
        (&["view", "/x", "--workers", "0"], "workers"),
    ] {
        let output = site.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{arguments:?}: {}", stderr(&output));
    }
}
