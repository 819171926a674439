//! Runs a viewer on a temporary cluster, sends HTTP requests, and compares the answers with the
//! volume.

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

use crate::command::{Sandbox, ServerProcess};

/// Time limit for every wait; a longer wait is a hang.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// A node, a client of it, and a viewer.
pub struct ViewerSession {
    pub viewer: ServerProcess,
    pub node: ServerProcess,
    pub cluster: Cluster,
    pub volumes: Vec<Volume>,
    pub address: String,
    _sandbox: Sandbox,
}

/// A phantom: path, voxels, spacing, and voxel type.
pub type PhantomSpec<'a> = (&'a str, [u64; 3], [f64; 3], Pixel);

/// An HTTP answer.
pub struct Answer {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl ViewerSession {
    /// Starts a viewer of phantoms without a token.
    pub fn of(made: &[PhantomSpec<'_>], options: &[&str]) -> Self {
        Self::with_token(made, &[&["--no-token"], options].concat(), |_, _| {})
    }

    /// Starts a viewer of phantoms with a token, unless the options say otherwise. `prepare` can
    /// change the sandbox and the command.
    pub fn with_token(
        made: &[PhantomSpec<'_>],
        options: &[&str],
        prepare: impl FnOnce(&Sandbox, &mut Command),
    ) -> Self {
        let create = |cluster: &Cluster| {
            let create = |(path, voxels, spacing, pixel): &PhantomSpec<'_>| {
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

    /// Starts a viewer of volumes that `create` creates.
    pub fn showing(
        create: impl FnOnce(&Cluster) -> Vec<Volume>,
        options: &[&str],
        prepare: impl FnOnce(&Sandbox, &mut Command),
    ) -> Self {
        let mut sandbox = Sandbox::served();
        let node = sandbox.node();
        let data = sandbox.file("data");
        let cluster = Cluster::connect(data.to_str().expect("text")).expect("a node is running");
        let volumes = create(&cluster);
        let paths: Vec<_> = volumes.iter().map(|volume| volume.file().path().to_string()).collect();
        // A test may pause the node for long.
        let mut arguments = vec!["--cluster", "data", "--timeout", "3600", "view"];
        arguments.extend(paths.iter().map(String::as_str));
        arguments.extend(options);
        let mut command = sandbox.pario(&arguments);
        prepare(&sandbox, &mut command);
        let viewer = ServerProcess::start(command);
        let address = address(&viewer.lines[0]);
        Self { viewer, node, cluster, volumes, address, _sandbox: sandbox }
    }

    /// Returns the token in the URL that the viewer has printed.
    pub fn token(&self) -> &str {
        let line = &self.viewer.lines[0];
        line.split_once("/?token=").unwrap_or_else(|| panic!("no token in {line}")).1
    }

    /// Sends a GET request with more headers, each ended by a line break.
    pub fn get_with(&self, path: &str, headers: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.1\r\n{headers}Host: {}", self.address);
        Answer::read(send(&self.address, &head))
    }

    /// Sends a GET request.
    pub fn get(&self, path: &str) -> Answer {
        get(&self.address, path)
    }

    /// Sends a GET request for JSON.
    pub fn json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).expect("JSON")
    }

    /// Waits until the status of the viewer fulfils a condition.
    pub fn wait_for(&self, what: impl Fn(&Value) -> bool) {
        let begin = std::time::Instant::now();
        loop {
            let status = self.json("/api/status");
            if what(&status) {
                return;
            }
            assert!(begin.elapsed() < TIMEOUT, "it stays so: {status}");
        }
    }

    /// Returns the peak memory of the viewer.
    pub fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.viewer.pid()));
        let status = status.expect("the viewer runs");
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a figure");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
    }
}

/// Returns host and port in the first line of a viewer.
pub fn address(line: &str) -> String {
    let (_, url) = line.split_once("http://").expect("a URL");
    url.split_once('/').expect("a path").0.to_owned()
}

/// Sends a request; the answer can be read later.
pub fn send(address: &str, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the viewer listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time limit");
    write!(stream, "{head}\r\nConnection: close\r\n\r\n").expect("the viewer reads");
    stream
}

/// Sends a GET request; the answer can be read later.
pub fn start(address: &str, path: &str) -> TcpStream {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}"))
}

/// Sends a GET request and reads the answer.
pub fn get(address: &str, path: &str) -> Answer {
    Answer::read(start(address, path))
}

impl Answer {
    /// Reads an answer.
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

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the sentence of a refusal.
    pub fn refusal(&self) -> String {
        let told: Value = serde_json::from_slice(&self.body).expect("a refusal is JSON");
        told["error"].as_str().expect("a refusal has a sentence").to_owned()
    }

    /// Returns the number in a header.
    pub fn figure(&self, name: &str) -> f64 {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("{name} is missing"));
        value.parse().expect("a number")
    }

    /// Decodes a PNG: its size, and its pixels row by row.
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

/// Takes the slice of a path from the volume itself.
pub fn reference(volume: &Volume, path: &str) -> Vec<u8> {
    let said = query(path);
    let interpolation = match said.get("interpolation").map(String::as_str) {
        Some("trilinear") => Interpolation::Trilinear,
        _ => Interpolation::Nearest,
    };
    let plane = plane(path).in_volume(volume.spacing()).expect("a plane");
    volume.slice_of(&plane, interpolation, &[]).expect("a slice").0.data().to_vec()
}

/// Returns the plane of a path.
pub fn plane(path: &str) -> SliceQuery {
    let said = query(path);
    let side = |name: &str| said[name].parse().expect("pixels");
    let zoom = said.get("zoom").map_or(1.0, |zoom| zoom.parse().expect("a number"));
    let [origin, right, down] = ["origin", "right", "down"].map(|name| place(path, name));
    Plane::spanned(origin, right, down).size(side("width"), side("height")).zoom(zoom)
}

/// Returns three numbers in a path.
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
