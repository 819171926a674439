//! What is asked for, read from the address of a request and checked.

use std::collections::HashMap;
use std::str::FromStr;

use pario_image::{Interpolation, Plane, Volume};

use super::picture::{Format, Outside, Window};
use super::queue::Asker;
use super::volumes::default_window;
use crate::http::Refusal;

/// A picture is at most so many pixels wide and high.
pub const SIDE_LIMIT: u32 = 4096;

/// The quality of a JPEG if nothing is said.
const QUALITY: u8 = 80;

/// Names of clients and views are at most so many bytes long.
const NAME_LIMIT: usize = 64;

/// Everything that may be said of a slice.
const KNOWN: [&str; 15] = [
    "origin",
    "right",
    "down",
    "width",
    "height",
    "zoom",
    "interpolation",
    "format",
    "quality",
    "low",
    "high",
    "outside",
    "client",
    "view",
    "sequence",
];

/// Everything that may be said of a voxel.
const KNOWN_OF_VOXEL: [&str; 4] = ["at", "client", "view", "sequence"];

/// A slice that is wanted, and how.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where.
    pub plane: Plane,
    /// What is between voxels.
    pub interpolation: Interpolation,
    /// Which values are black and white.
    pub window: Window,
    /// What is shown where there is no volume.
    pub outside: Outside,
    /// What the picture is to be.
    pub format: Format,
    /// By whom.
    pub asker: Asker,
}

impl Wanted {
    /// Reads what was asked for of a volume.
    pub fn read(query: &HashMap<String, String>, volume: &Volume) -> Result<Self, Refusal> {
        let said = Said::among(query, &KNOWN)?;
        let plane =
            Plane::spanned(said.place("origin")?, said.place("right")?, said.place("down")?)
                .size(said.side("width")?, said.side("height")?)
                .zoom(said.number("zoom")?.unwrap_or(1.0))
                .in_volume(volume.spacing())
                .map_err(|error| Refusal::wrong(error.to_string()))?;
        Ok(Self {
            plane,
            interpolation: said.interpolation()?,
            window: said.window(default_window(volume))?,
            outside: said.outside()?,
            format: said.format()?,
            asker: said.asker()?,
        })
    }

    /// Reads of which voxel of a volume the values were asked for: the one that is nearest to a
    /// place.
    pub fn read_voxel(query: &HashMap<String, String>, volume: &Volume) -> Result<Self, Refusal> {
        let said = Said::among(query, &KNOWN_OF_VOXEL)?;
        let [low, high] = default_window(volume);
        let plane = Plane::spanned(said.place("at")?, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
            .size(1, 1)
            .in_volume(volume.spacing())
            .map_err(|error| Refusal::wrong(error.to_string()))?;
        Ok(Self {
            plane,
            interpolation: Interpolation::Nearest,
            window: Window { low, high },
            outside: Outside::Black,
            format: Format::Values,
            asker: said.asker()?,
        })
    }
}

struct Said<'a>(&'a HashMap<String, String>);

impl<'a> Said<'a> {
    /// What was said, of names that are known.
    fn among(query: &'a HashMap<String, String>, known: &[&str]) -> Result<Self, Refusal> {
        match query.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self(query)),
            Some(name) => {
                let known = known.join(", ");
                Err(Refusal::wrong(format!("there is no parameter {name:?}; known: {known}")))
            }
        }
    }

    fn asker(&self) -> Result<Asker, Refusal> {
        Ok(Asker {
            client: self.name("client")?,
            view: self.name("view")?,
            sequence: self.number("sequence")?,
        })
    }

    fn outside(&self) -> Result<Outside, Refusal> {
        match self.get("outside") {
            None | Some("black") => Ok(Outside::Black),
            Some("transparent") => Ok(Outside::Transparent),
            Some(text) => {
                let text = short(text);
                Err(Refusal::wrong(format!("outside={text}: give black or transparent")))
            }
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.trim().parse().ok();
        let wrong = || Refusal::wrong(format!("{name}={}: this is no number", short(text)));
        number.map(Some).ok_or_else(wrong)
    }

    fn place(&self, name: &str) -> Result<[f64; 3], Refusal> {
        let text = self.get(name).ok_or_else(|| missing(name, "three numbers, such as 1,0,0"))?;
        let numbers: Result<Vec<f64>, _> =
            text.split(',').map(|part| part.trim().parse()).collect();
        numbers.ok().and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| {
            let text = short(text);
            Refusal::wrong(format!("{name}={text}: give three numbers, such as 1,0,0"))
        })
    }

    fn side(&self, name: &str) -> Result<u32, Refusal> {
        let side = self.number(name)?.ok_or_else(|| missing(name, "a number of pixels"))?;
        if (1..=SIDE_LIMIT).contains(&side) {
            return Ok(side);
        }
        Err(Refusal::wrong(format!(
            "{name}={side}: pictures are 1 to {SIDE_LIMIT} pixels wide and high"
        )))
    }

    fn interpolation(&self) -> Result<Interpolation, Refusal> {
        match self.get("interpolation") {
            None | Some("nearest") => Ok(Interpolation::Nearest),
            Some("trilinear") => Ok(Interpolation::Trilinear),
            Some(text) => Err(Refusal::wrong(format!(
                "interpolation={}: give nearest or trilinear",
                short(text)
            ))),
        }
    }

    fn format(&self) -> Result<Format, Refusal> {
        let quality = self.number("quality")?.unwrap_or(QUALITY);
        if !(1..=100).contains(&quality) {
            return Err(Refusal::wrong(format!("quality={quality}: give 1 to 100")));
        }
        match self.get("format") {
            None | Some("png") => Ok(Format::Png),
            Some("jpeg") => Ok(Format::Jpeg(quality)),
            Some(text) => Err(Refusal::wrong(format!("format={}: give png or jpeg", short(text)))),
        }
    }

    fn window(&self, usual: [f64; 2]) -> Result<Window, Refusal> {
        let low: f64 = self.number("low")?.unwrap_or(usual[0]);
        let high: f64 = self.number("high")?.unwrap_or(usual[1]);
        if low.is_finite() && high.is_finite() && low < high {
            return Ok(Window { low, high });
        }
        Err(Refusal::wrong(format!(
            "low={low} and high={high}: give two finite numbers, the lower one as low"
        )))
    }

    fn name(&self, name: &str) -> Result<String, Refusal> {
        let text = self.get(name).unwrap_or_default();
        if text.len() <= NAME_LIMIT {
            return Ok(text.to_owned());
        }
        Err(Refusal::wrong(format!(
            "{name} is {} bytes long, the limit is {NAME_LIMIT}",
            text.len()
        )))
    }
}

fn missing(name: &str, what: &str) -> Refusal {
    Refusal::wrong(format!("{name} is missing: give {what}"))
}

/// As much of a text as a sentence can bear.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}
