//! Parses and checks the queries of requests.

use std::collections::HashMap;
use std::str::FromStr;

use pario_image::{Interpolation, Plane, Volume};

use super::picture::{OutsidePixels, PictureFormat, ValueWindow};
use super::queue::Requester;
use super::volumes::default_window;
use crate::http::HttpRefusal;

/// Limit for width and height of a picture, in pixels.
pub const SIDE_LIMIT: u32 = 4096;

/// Default quality of a JPEG.
const QUALITY: u8 = 80;

/// Limit for the names of clients and views, in bytes.
const NAME_LIMIT: usize = 64;

/// The parameters of a slice request.
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

/// The parameters of a voxel request.
const KNOWN_OF_VOXEL: [&str; 4] = ["at", "client", "view", "sequence"];

/// A request for a slice.
#[derive(Clone, Debug)]
pub struct SliceRequest {
    /// Position and size of the slice.
    pub plane: Plane,
    /// Interpolation between voxels.
    pub interpolation: Interpolation,
    /// The values from black to white.
    pub window: ValueWindow,
    /// Appearance of pixels outside the volume.
    pub outside: OutsidePixels,
    /// Format of the picture.
    pub format: PictureFormat,
    /// The sender of the request.
    pub requester: Requester,
}

impl SliceRequest {
    /// Parses a request for a slice of a volume.
    pub fn read(query: &HashMap<String, String>, volume: &Volume) -> Result<Self, HttpRefusal> {
        let parameters = QueryParameters::among(query, &KNOWN)?;
        let plane = Plane::spanned(
            parameters.place("origin")?,
            parameters.place("right")?,
            parameters.place("down")?,
        )
        .size(parameters.side("width")?, parameters.side("height")?)
        .zoom(parameters.number("zoom")?.unwrap_or(1.0))
        .in_volume(volume.spacing())
        .map_err(|error| HttpRefusal::wrong(error.to_string()))?;
        Ok(Self {
            plane,
            interpolation: parameters.interpolation()?,
            window: parameters.window(default_window(volume))?,
            outside: parameters.outside()?,
            format: parameters.format()?,
            requester: parameters.requester()?,
        })
    }

    /// Parses a request for the values of the voxel nearest to a position.
    pub fn read_voxel(
        query: &HashMap<String, String>,
        volume: &Volume,
    ) -> Result<Self, HttpRefusal> {
        let parameters = QueryParameters::among(query, &KNOWN_OF_VOXEL)?;
        let [low, high] = default_window(volume);
        let plane = Plane::spanned(parameters.place("at")?, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
            .size(1, 1)
            .in_volume(volume.spacing())
            .map_err(|error| HttpRefusal::wrong(error.to_string()))?;
        Ok(Self {
            plane,
            interpolation: Interpolation::Nearest,
            window: ValueWindow { low, high },
            outside: OutsidePixels::Black,
            format: PictureFormat::Values,
            requester: parameters.requester()?,
        })
    }
}

struct QueryParameters<'a>(&'a HashMap<String, String>);

impl<'a> QueryParameters<'a> {
    /// Checks that all parameters are known.
    fn among(query: &'a HashMap<String, String>, known: &[&str]) -> Result<Self, HttpRefusal> {
        match query.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self(query)),
            Some(name) => {
                let known = known.join(", ");
                Err(HttpRefusal::wrong(format!("there is no parameter {name:?}; known: {known}")))
            }
        }
    }

    fn requester(&self) -> Result<Requester, HttpRefusal> {
        Ok(Requester {
            client: self.name("client")?,
            view: self.name("view")?,
            sequence: self.number("sequence")?,
        })
    }

    fn outside(&self) -> Result<OutsidePixels, HttpRefusal> {
        match self.get("outside") {
            None | Some("black") => Ok(OutsidePixels::Black),
            Some("transparent") => Ok(OutsidePixels::Transparent),
            Some(text) => {
                let text = short(text);
                Err(HttpRefusal::wrong(format!("outside={text}: give black or transparent")))
            }
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, HttpRefusal> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.trim().parse().ok();
        let wrong = || HttpRefusal::wrong(format!("{name}={}: this is not a number", short(text)));
        number.map(Some).ok_or_else(wrong)
    }

    fn place(&self, name: &str) -> Result<[f64; 3], HttpRefusal> {
        let text = self.get(name).ok_or_else(|| missing(name, "three numbers, such as 1,0,0"))?;
        let numbers: Result<Vec<f64>, _> =
            text.split(',').map(|part| part.trim().parse()).collect();
        numbers.ok().and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| {
            let text = short(text);
            HttpRefusal::wrong(format!("{name}={text}: give three numbers, such as 1,0,0"))
        })
    }

    fn side(&self, name: &str) -> Result<u32, HttpRefusal> {
        let side = self.number(name)?.ok_or_else(|| missing(name, "a number of pixels"))?;
        if (1..=SIDE_LIMIT).contains(&side) {
            return Ok(side);
        }
        Err(HttpRefusal::wrong(format!(
            "{name}={side}: pictures are 1 to {SIDE_LIMIT} pixels wide and high"
        )))
    }

    fn interpolation(&self) -> Result<Interpolation, HttpRefusal> {
        match self.get("interpolation") {
            None | Some("nearest") => Ok(Interpolation::Nearest),
            Some("trilinear") => Ok(Interpolation::Trilinear),
            Some(text) => Err(HttpRefusal::wrong(format!(
                "interpolation={}: give nearest or trilinear",
                short(text)
            ))),
        }
    }

    fn format(&self) -> Result<PictureFormat, HttpRefusal> {
        let quality = self.number("quality")?.unwrap_or(QUALITY);
        if !(1..=100).contains(&quality) {
            return Err(HttpRefusal::wrong(format!("quality={quality}: give 1 to 100")));
        }
        match self.get("format") {
            None | Some("png") => Ok(PictureFormat::Png),
            Some("jpeg") => Ok(PictureFormat::Jpeg(quality)),
            Some(text) => {
                Err(HttpRefusal::wrong(format!("format={}: give png or jpeg", short(text))))
            }
        }
    }

    fn window(&self, usual: [f64; 2]) -> Result<ValueWindow, HttpRefusal> {
        let low: f64 = self.number("low")?.unwrap_or(usual[0]);
        let high: f64 = self.number("high")?.unwrap_or(usual[1]);
        if low.is_finite() && high.is_finite() && low < high {
            return Ok(ValueWindow { low, high });
        }
        Err(HttpRefusal::wrong(format!(
            "low={low} and high={high}: give two finite numbers, the lower one as low"
        )))
    }

    fn name(&self, name: &str) -> Result<String, HttpRefusal> {
        let text = self.get(name).unwrap_or_default();
        if text.len() <= NAME_LIMIT {
            return Ok(text.to_owned());
        }
        Err(HttpRefusal::wrong(format!(
            "{name} is {} bytes long, the limit is {NAME_LIMIT}",
            text.len()
        )))
    }
}

fn missing(name: &str, what: &str) -> HttpRefusal {
    HttpRefusal::wrong(format!("{name} is missing: give {what}"))
}

/// Shortens a text for an error message.
fn short(text: &str) -> String {
    text.chars().take(40).collect()
}
