//! A user who steps through a volume: requests slices over its own connection.

use std::f64::consts::FRAC_1_SQRT_2;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Pixels on each side of a slice.
const SIDE: f64 = 512.0;
/// Steps in one direction before the user turns back.
const STEPS: u32 = 64;
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The directions right and down of a slice.
type SliceDirections = [[f64; 3]; 2];

/// Slices across z, y and x, and one across the diagonal.
const SPANS: [SliceDirections; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]],
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [[FRAC_1_SQRT_2, -FRAC_1_SQRT_2, 0.0], [0.408_248_29, 0.408_248_29, -0.816_496_58]],
];

/// A user.
pub struct ViewerUser {
    /// Random numbers, different for each user.
    pub random: fastrand::Rng,
    address: String,
    number: u32,
    sequence: u32,
    centre: [f64; 3],
    stream: BufReader<TcpStream>,
    picture: Vec<u8>,
}

impl ViewerUser {
    /// Connects. A quarter of the users looks in each direction, from different positions.
    pub fn connect(address: &str, number: u32, centre: [f64; 3]) -> Result<Self> {
        let stream = TcpStream::connect(address).context("connecting to the viewer")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIME_LIMIT))?;
        Ok(Self {
            random: fastrand::Rng::with_seed(number.into()),
            address: address.to_owned(),
            number,
            sequence: 0,
            centre,
            stream: BufReader::new(stream),
            picture: Vec::new(),
        })
    }

    /// Requests the next slice, and reads its picture.
    pub fn step(&mut self) -> Result<()> {
        self.sequence += 1;
        let path = self.path();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        self.stream.get_mut().write_all(request.as_bytes()).context("asking the viewer")?;
        let length = read_head(&mut self.stream)?;
        self.picture.resize(length, 0);
        self.stream.read_exact(&mut self.picture).context("reading a picture")?;
        ensure!(self.picture.starts_with(b"\x89PNG"), "the reply is not a PNG");
        Ok(())
    }

    /// The path that the page would request: a slice at full size, with user, purpose and number.
    fn path(&self) -> String {
        let [right, down] = SPANS[self.number as usize % SPANS.len()];
        let normal = cross(right, down);
        let turn = (self.number / 4 * 13 + self.sequence) % (2 * STEPS);
        let away = f64::from(turn.min(2 * STEPS - turn)) - f64::from(STEPS) / 2.0;
        let half = (SIDE - 1.0) / 2.0;
        let origin = [0, 1, 2].map(|axis| {
            let corner = half * (right[axis] + down[axis]);
            (self.centre[axis] + away * normal[axis] - corner).to_string()
        });
        let text = |place: [f64; 3]| place.map(|number| number.to_string()).join(",");
        let (origin, right, down) = (origin.join(","), text(right), text(down));
        let (number, sequence) = (self.number, self.sequence);
        format!(
            "/api/volumes/0/slice?origin={origin}&right={right}&down={down}&width={SIDE}\
             &height={SIDE}&client=user{number}&view=one&sequence={sequence}"
        )
    }
}

/// Reads the head of a reply, which must be a success; returns the length of the body.
fn read_head(stream: &mut impl BufRead) -> Result<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).context("reading a reply")?;
    ensure!(line.starts_with("HTTP/1.1 200"), "the viewer replied with {:?}", line.trim());
    let mut length = None;
    loop {
        line.clear();
        stream.read_line(&mut line).context("reading a reply")?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok();
        }
    }
    length.context("the reply has no length")
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_an_answer_says_how_long_it_is() {
        let mut answer: &[u8] =
            b"HTTP/1.1 200 OK\r\nX-Pario-Turn: 7\r\ncontent-length: 4\r\n\r\n\x89PNG";
        assert_eq!(read_head(&mut answer).unwrap(), 4);
        assert_eq!(answer, b"\x89PNG");
        let refused = read_head(&mut b"HTTP/1.1 429 Too Many\r\n\r\n".as_slice()).unwrap_err();
        assert!(refused.to_string().contains("429"));
    }

    #[test]
    fn directions_of_slices_are_at_right_angles_and_of_length_one() {
        for [right, down] in SPANS {
            let product = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).map(|(a, b)| a * b).sum();
            let (one, other, both): (f64, f64, f64) =
                (product(right, right), product(down, down), product(right, down));
            assert!((one - 1.0).abs() < 1e-6 && (other - 1.0).abs() < 1e-6 && both.abs() < 1e-6);
        }
    }
}
