//! Parses the operations of `pario image apply`.

use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use pario_image::{Bins, Edge, Filter, Pixelwise};

use crate::exit::UsageError;

/// An operation on an image.
#[derive(Clone, Debug, PartialEq)]
pub enum ImageOperation {
    /// An operation on each pixel and its neighbours.
    Filter(Filter),
    /// An operation on each pixel alone.
    Pixelwise(Pixelwise),
    /// A histogram; `None` means the default bins.
    Histogram(Option<Bins>),
}

/// Divisor and offset for the sums of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct ConvolutionScale {
    pub divisor: f32,
    pub offset: f32,
}

const KNOWN: &str = "the operations are gaussian, median, erode, dilate, convolve, gamma, threshold, \
 mix, levels, invert and histogram";

impl ImageOperation {
    /// Parses an operation and its parameters.
    pub fn parse(name: &str, words: &[String], scale: ConvolutionScale) -> anyhow::Result<Self> {
        let operation = match (name, words) {
            ("gaussian", [sigma]) => {
                Self::Filter(Filter::Gaussian { sigma: number("SIGMA", sigma)? })
            }
            ("median", [radius]) => Self::Filter(Filter::Median { radius: number("R", radius)? }),
            ("erode", [radius]) => Self::Filter(Filter::Erosion { radius: number("R", radius)? }),
            ("dilate", [radius]) => Self::Filter(Filter::Dilation { radius: number("R", radius)? }),
            ("convolve", [file]) => Self::Filter(convolution(Path::new(file), scale)?),
            ("gamma", [gamma]) => Self::Pixelwise(Pixelwise::Gamma { gamma: number("G", gamma)? }),
            ("threshold", [at, below, above]) => Self::Pixelwise(Pixelwise::Threshold {
                at: number("AT", at)?,
                below: number("BELOW", below)?,
                above: number("ABOVE", above)?,
            }),
            ("mix", rows @ [_, ..]) => Self::Pixelwise(mix(rows)?),
            ("levels", [low, high]) => Self::Pixelwise(Pixelwise::Levels {
                low: number("LOW", low)?,
                high: number("HIGH", high)?,
            }),
            ("invert", []) => Self::Pixelwise(Pixelwise::Invert),
            ("histogram", []) => Self::Histogram(None),
            ("histogram", [low, high, bins]) => Self::Histogram(Some(Bins::Reals {
                low: number("LOW", low)?,
                high: number("HIGH", high)?,
                bins: number("BINS", bins)?,
            })),
            _ => return Err(misused(name, words.len()).into()),
        };
        match &operation {
            Self::Filter(filter) => {
                filter.validate().map_err(|error| UsageError(error.to_string()))?
            }
            Self::Pixelwise(map) => {
                map.validate().map_err(|error| UsageError(error.to_string()))?
            }
            Self::Histogram(_) => {}
        }
        Ok(operation)
    }
}

/// Explains an unknown operation or wrong parameters.
fn misused(name: &str, words: usize) -> UsageError {
    let takes = match name {
        "gaussian" => "gaussian SIGMA",
        "median" => "median R",
        "erode" => "erode R",
        "dilate" => "dilate R",
        "convolve" => "convolve FILE",
        "gamma" => "gamma G",
        "threshold" => "threshold AT BELOW ABOVE",
        "mix" => "mix ROW [ROW..]",
        "levels" => "levels LOW HIGH",
        "invert" => "invert",
        "histogram" => "histogram, or histogram LOW HIGH BINS",
        _ => return UsageError(format!("{name:?} is not an operation; {KNOWN}")),
    };
    UsageError(format!(
        "{words} words after {name:?}: write {takes}, followed by the target unless it is a \
         histogram"
    ))
}

fn number<T: FromStr>(what: &str, text: &str) -> Result<T, UsageError> {
    text.parse().map_err(|_| UsageError(format!("{what} is {text:?}, but must be a number")))
}

/// Parses the values beyond the edges: `clamp`, `mirror` or a number.
pub fn edge(text: &str) -> Result<Edge, String> {
    match text {
        "clamp" => Ok(Edge::Clamp),
        "mirror" => Ok(Edge::Mirror),
        value => match value.parse::<f32>() {
            Ok(value) if value.is_finite() => Ok(Edge::Constant(value)),
            _ => Err("it is neither clamp nor mirror nor a value".to_owned()),
        },
    }
}

/// Parses rows of weights, each with an optional colon and offset.
fn mix(rows: &[String]) -> Result<Pixelwise, UsageError> {
    let (mut matrix, mut offsets, mut len) = (Vec::new(), Vec::new(), None);
    for row in rows {
        let (weights, offset) = row.split_once(':').unwrap_or((row, "0"));
        let weights: Vec<f64> = weights
            .split(',')
            .map(|weight| number("a weight", weight))
            .collect::<Result<_, _>>()?;
        if *len.get_or_insert(weights.len()) != weights.len() {
            return Err(UsageError(
                "all rows of a mix must have as many weights as the first".to_owned(),
            ));
        }
        offsets.push(number("the offset", offset)?);
        matrix.extend(weights);
    }
    Ok(Pixelwise::ChannelMix { matrix, offsets })
}

/// Reads the rows of a kernel from a file, one per line; `#` begins a comment.
fn convolution(path: &Path, scale: ConvolutionScale) -> anyhow::Result<Filter> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the kernel {}", path.display()))?;
    Ok(kernel(&text, scale)
        .map_err(|UsageError(why)| UsageError(format!("{}: {why}", path.display())))?)
}

fn kernel(
    text: &str,
    ConvolutionScale { divisor, offset }: ConvolutionScale,
) -> Result<Filter, UsageError> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    let (mut weights, mut width, mut height) = (Vec::new(), 0, 0);
    for line in lines.filter(|line| !line.is_empty()) {
        let words = line.split(|c: char| c == ',' || c.is_whitespace());
        let row: Vec<f32> = words
            .filter(|word| !word.is_empty())
            .map(|word| number("a weight", word))
            .collect::<Result<_, _>>()?;
        if height > 0 && row.len() != width {
            let len = row.len();
            return Err(UsageError(format!(
                "a row has {len} weights, the first has {width}; they must be equal"
            )));
        }
        (width, height) = (row.len(), height + 1);
        weights.extend(row);
    }
    let side = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    Ok(Filter::Convolution { width: side(width), height, weights, divisor, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUMS: ConvolutionScale = ConvolutionScale { divisor: 1.0, offset: 0.0 };

    fn parse(line: &str) -> anyhow::Result<ImageOperation> {
        let mut words = line.split(' ').map(str::to_owned);
        let name = words.next().unwrap();
        ImageOperation::parse(&name, &words.collect::<Vec<_>>(), SUMS)
    }

    #[test]
    fn words_mean_operations() {
        let filter = |line: &str| parse(line).unwrap();
        assert_eq!(filter("gaussian 1.5"), ImageOperation::Filter(Filter::Gaussian { sigma: 1.5 }));
        assert_eq!(filter("erode 3"), ImageOperation::Filter(Filter::Erosion { radius: 3 }));
        let mix =
            Pixelwise::ChannelMix { matrix: vec![1.0, 0.0, 0.5, -0.5], offsets: vec![0.0, 128.0] };
        assert_eq!(filter("mix 1,0 0.5,-0.5:128"), ImageOperation::Pixelwise(mix));
        assert_eq!(filter("invert"), ImageOperation::Pixelwise(Pixelwise::Invert));
        assert_eq!(filter("histogram"), ImageOperation::Histogram(None));
    }

    #[test]
    fn what_is_no_operation_is_told() {
        for (line, told) in [
            ("sharpen 2", "the operations are gaussian"),
            ("gaussian", "write gaussian SIGMA"),
            ("gaussian much", "but must be a number"),
            ("gaussian 99", "sigma 99"),
            ("median 16", "radius 16"),
            ("gamma -1", "gamma is -1"),
            ("levels 1 1", "must be different"),
            ("mix 1,2 3", "as many weights"),
            ("mix 1,2,3,4,5", "1 to 4"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.to_string().contains(told), "{line}: {error}");
            assert_eq!(crate::exit::code(&error), crate::exit::WRONG_USAGE, "{line}");
        }
        let error = parse("convolve /no/such/file").unwrap_err();
        assert_eq!(crate::exit::code(&error), crate::exit::NOT_FOUND);
    }

    #[test]
    fn kernels_are_rows_of_weights() {
        let Ok(Filter::Convolution { width, height, weights, .. }) =
            kernel("# sharpen\n0 -1 0\n-1, 5, -1\n\n0 -1 0 # end\n", SUMS)
        else {
            panic!("it is a kernel")
        };
        assert_eq!((width, height, weights[4]), (3, 3, 5.0));
        assert!(kernel("1 2 3\n1 2", SUMS).is_err());
        assert!(kernel("1 x 3", SUMS).is_err());
    }

    #[test]
    fn edges_have_names_and_values() {
        assert_eq!(edge("mirror"), Ok(Edge::Mirror));
        assert_eq!(edge("7.5"), Ok(Edge::Constant(7.5)));
        assert!(edge("wrap").is_err() && edge("nan").is_err());
    }
}
