//! A viewer on a cluster of its own, asked over HTTP and compared with the volume itself.
#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod browser;
pub mod page;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use pario::Cluster;
use pario_image::{Interpolation, Pixel, Plane, Sample, SliceQuery, Volume, VolumeOptions};
use serde_json::Value;

use crate::command::{Served, Site};

/// Nothing takes so long; who waits longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A node, a cluster that reaches it, and a viewer.
pub struct Viewing {
    pub viewer: Served,
    pub node: Served,
    pub cluster: Cluster,
    pub volumes: Vec<Volume>,
    pub address: String,
    site: Site,
}

/// Volumes: path, voxels, spacing, and what a voxel is.
pub type Made<'a> = (&'a str, [u64; 3], [f64; 3], Pixel);

/// An answer.
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Viewing {
    /// A viewer of phantoms that needs no token.
    pub fn of(made: &[Made<'_>], options: &[&str]) -> Self {
        Self::with_token(made, &[&["--no-token"], options].concat(), |_, _| {})
    }

    /// A viewer of phantoms that needs a token, unless the options say otherwise. `prepare` can
    /// add to the site and to the command.
    pub fn with_token(
        made: &[Made<'_>],
        options: &[&str],
        prepare: impl FnOnce(&Site, &mut Command),
    ) -> Self {
        let create = |cluster: &Cluster| {
            let create = |(path, voxels, spacing, pixel): &Made<'_>| {
                let options = VolumeOptions::new(*voxels, *pixel).spacing(*spacing);
                let volume = options.create(cluster, path).expect("a volume");
                volume.generate(7).expect("a body");
                if pixel.sample() == Sample::I16 {
                    // As an import does.
                    volume.record_statistics().expect("statistics");
                }
                volume
            };
            made.iter().map(create).collect()
        };
        Self::showing(create, options, prepare)
    }

    /// A viewer of volumes that a test has made on its cluster.
    pub fn showing(
        create: impl FnOnce(&Cluster) -> Vec<Volume>,
        options: &[&str],
        prepare: impl FnOnce(&Site, &mut Command),
    ) -> Self {
        let mut site = Site::served();
        let node = site.node();
        let data = site.file("data");
        let cluster = Cluster::connect(data.to_str().expect("text")).expect("a node is running");
        let volumes = create(&cluster);
        let paths: Vec<_> = volumes.iter().map(|volume| volume.file().path().to_string()).collect();
        // The node may be paused for as long as a test wants.
        let mut arguments = vec!["--cluster", "data", "--timeout", "3600", "view"];
        arguments.extend(paths.iter().map(String::as_str));
        arguments.extend(options);
        let mut command = site.pario(&arguments);
        prepare(&site, &mut command);
        let viewer = Served::start(command);
        let address = address(&viewer.lines[0]);
        Self { viewer, node, cluster, volumes, address, site }
    }

    /// The token in the URL that the viewer has printed.
    pub fn token(&self) -> &str {
        let line = &self.viewer.lines[0];
        line.split_once("/?token=").unwrap_or_else(|| panic!("no token in {line}")).1
    }

    /// Asks for something with more headers, each ended by a line break.
    pub fn get_with(&self, path: &str, headers: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.1\r\n{headers}Host: {}", self.address);
        Answer::read(send(&self.address, &head))
    }

    /// Asks for something.
    pub fn get(&self, path: &str) -> Answer {
        get(&self.address, path)
    }

    /// Asks for JSON.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Waits until the status of the viewer is as it should be.
    pub fn wait_for(&self, what: impl Fn(&Value) -> bool) {
        let begin = std::time::Instant::now();
        loop {
            let status = self.json("/api/status");
            if what(&status) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "it stays so: {status}");
        }
    }

    /// The most memory that the viewer has had at once.
    pub fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.viewer.pid()));
        let status = status.expect("the viewer runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a figure");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }
}

/// The address in the line that a viewer begins with: host and port.
pub fn address(line: &str) -> String {
    let (_, url) = line.split_once("http://").expect("a URL");
    url.split_once('/').expect("a path").0.to_owned()
}

/// Sends a request; the answer can be read later.
pub fn send(address: &str, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the viewer listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    write!(stream, "{head}\r\nConnection: close\r\n\r\n").expect("the viewer reads");
    stream
}

/// Sends a request for a path.
pub fn start(address: &str, path: &str) -> TcpStream {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}"))
}

/// Asks for a path.
pub fn get(address: &str, path: &str) -> Answer {
    Answer::read(start(address, path))
}

impl Answer {
    /// Reads the answer.
    pub fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("an answer");
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let (first, rest) = head.split_once("\r\n").expect("headers");
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let headers = rest.split("\r\n").filter_map(|line| line.split_once(": "));
        Self {
            status: status.expect("a status"),
            headers: headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    /// The body, for messages.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The sentence of a refusal.
    pub fn refusal(&self) -> String {
        let told: Value = serde_json::from_slice(&self.body).expect("a refusal is JSON");
        told["error"].as_str().expect("a refusal has a sentence").to_owned()
    }

    /// A number in a header.
    pub fn figure(&self, name: &str) -> f64 {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        value.parse().expect("a number")
    }

    /// The pixels of a PNG, row by row, and its size.
    pub fn pixels(&self) -> (u32, u32, Vec<u8>) {
        assert_eq!(self.status, 200, "{}", self.text());
        let decoder = png::Decoder::new(std::io::Cursor::new(&self.body));
        let mut reader = decoder.read_info().expect("a PNG");
        let mut pixels = vec![0; reader.output_buffer_size().expect("a small PNG")];
        let info = reader.next_frame(&mut pixels).expect("pixels");
        pixels.truncate(info.buffer_size());
        (info.width, info.height, pixels)
    }
}

/// The slice of a path, taken from the volume itself.
pub fn reference(volume: &Volume, path: &str) -> Vec<u8> {
    let said = query(path);
    let interpolation = match said.get("interpolation").map(String::as_str) {
        Some("trilinear") => Interpolation::Trilinear,
        _ => Interpolation::Nearest,
    };
    let plane = plane(path).in_volume(volume.spacing()).expect("a plane");
    volume.slice_of(&plane, interpolation, &[]).expect("a slice").0.data().to_vec()
}

/// The plane that a path asks for.
pub fn plane(path: &str) -> SliceQuery {
    let said = query(path);
    let side = |name: &str| said[name].parse().expect("pixels");
    let zoom = said.get("zoom").map_or(1.0, |zoom| zoom.parse().expect("a number"));
    let [origin, right, down] = ["origin", "right", "down"].map(|name| place(path, name));
    Plane::spanned(origin, right, down).size(side("width"), side("height")).zoom(zoom)
}

/// Three numbers in a path.
pub fn place(path: &str, name: &str) -> [f64; 3] {
    let numbers: Vec<f64> =
        query(path)[name].split(',').map(|part| part.parse().expect("a number")).collect();
    numbers.try_into().expect("three numbers")
}

fn query(path: &str) -> HashMap<String, String> {
    let query = path.split_once('?').expect("a query").1;
    let parts = query.split('&').filter_map(|part| part.split_once('='));
    parts.map(|(name, value)| (name.to_owned(), value.replace("%2C", ","))).collect()
}
