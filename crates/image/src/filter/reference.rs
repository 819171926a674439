//! Filters as plain functions of whole images, for comparison.

use crate::filter::channel::{SampleChannel, append_sample};
use crate::filter::{Edge, Filter, Pixels};
use crate::{Pixel, Sample};

/// An image as numbers, with its edge rule.
struct Field {
    width: u32,
    height: u32,
    pixel: Pixel,
    edge: Edge,
    values: Vec<f64>,
}

impl Field {
    fn new(image: &Pixels, edge: Edge) -> Field {
        let values = match image.pixel().sample() {
            Sample::U8 => numbers::<u8>(image),
            Sample::U16 => numbers::<u16>(image),
            Sample::I8 => numbers::<i8>(image),
            Sample::I16 => numbers::<i16>(image),
            Sample::F32 => numbers::<f32>(image),
        };
        let (width, height, pixel) = (image.width(), image.height(), image.pixel());
        Field { width, height, pixel, edge, values }
    }

    fn at(&self, x: i64, y: i64, channel: usize) -> f64 {
        let inside = |position: i64, length: u32| {
            let (mut position, length) = (position, i64::from(length));
            while !(0..length).contains(&position) {
                position = match self.edge {
                    Edge::Constant(_) => return None,
                    Edge::Clamp if position < 0 => position + 1,
                    Edge::Clamp => position - 1,
                    Edge::Mirror if length == 1 => 0,
                    Edge::Mirror if position < 0 => -position,
                    Edge::Mirror => 2 * (length - 1) - position,
                };
            }
            usize::try_from(position).ok()
        };
        match (inside(x, self.width), inside(y, self.height), self.edge) {
            (Some(x), Some(y), _) => {
                self.values[(y * self.width as usize + x) * self.pixel.channels() + channel]
            }
            (_, _, Edge::Constant(value)) => match self.pixel.sample() {
                Sample::F32 => f64::from(value),
                whole => {
                    let [least, greatest] = whole.range();
                    f64::from(value).round().clamp(least, greatest)
                }
            },
            _ => unreachable!("other rules have a pixel for every place"),
        }
    }
}

fn numbers<T: SampleChannel>(image: &Pixels) -> Vec<f64> {
    let mut values: Vec<T> = Vec::new();
    T::load(image.data(), &mut values);
    values.into_iter().map(T::real).collect()
}

/// Filters an image.
pub(super) fn filtered(image: &Pixels, filter: &Filter, edge: Edge) -> Pixels {
    let field = Field::new(image, edge);
    let mut data = Vec::new();
    for y in 0..i64::from(image.height()) {
        for x in 0..i64::from(image.width()) {
            for channel in 0..image.pixel().channels() {
                let at = |across: i64, down: i64| field.at(x + across, y + down, channel);
                let value = sample(filter, image.pixel().sample(), at);
                append_sample(image.pixel().sample(), value, &mut data);
            }
        }
    }
    Pixels::new(image.width(), image.height(), image.pixel(), data).unwrap()
}

fn sample(filter: &Filter, kind: Sample, at: impl Fn(i64, i64) -> f64) -> f64 {
    match filter {
        Filter::Convolution { width, height, weights, divisor, offset } => {
            let (across, down) = (i64::from(width / 2), i64::from(height / 2));
            let places = (-down..=down).flat_map(|y| (-across..=across).map(move |x| (x, y)));
            let terms = weights.iter().zip(places);
            match kind {
                Sample::U8 | Sample::I8 => {
                    let mut sum = 0f32;
                    terms.for_each(|(weight, (x, y))| sum += weight * narrow(at(x, y)));
                    f64::from(sum / divisor + offset).round()
                }
                Sample::U16 | Sample::I16 | Sample::F32 => {
                    let mut sum = 0f64;
                    terms.for_each(|(weight, (x, y))| sum += f64::from(*weight) * at(x, y));
                    let value = sum / f64::from(*divisor) + f64::from(*offset);
                    if kind == Sample::F32 { value } else { value.round() }
                }
            }
        }
        Filter::Gaussian { sigma } => gaussian(*sigma, kind, at),
        Filter::Median { radius } => {
            let square = sorted(*radius, at);
            square[square.len() / 2]
        }
        Filter::Erosion { radius } => sorted(*radius, at)[0],
        Filter::Dilation { radius } => *sorted(*radius, at).last().unwrap(),
    }
}

fn sorted(radius: u32, at: impl Fn(i64, i64) -> f64) -> Vec<f64> {
    let reach = i64::from(radius);
    let mut square: Vec<f64> = (-reach..=reach)
        .flat_map(|y| (-reach..=reach).map(move |x| (x, y)))
        .map(|(x, y)| at(x, y))
        .collect();
    square.sort_by(f64::total_cmp);
    square
}

/// Weights by the definition, with the functions of the system.
pub(super) fn weights(sigma: f64) -> Vec<f64> {
    let reach = (3.0 * sigma).ceil();
    let mut bell = Vec::new();
    let mut away = -reach;
    while away <= reach {
        bell.push((-away * away / (2.0 * sigma * sigma)).exp());
        away += 1.0;
    }
    let total: f64 = bell.iter().sum();
    let mut weights: Vec<f64> =
        bell.iter().map(|height| (height / total * 65_536.0).round()).collect();
    let middle = weights.len() / 2;
    weights[middle] = 0.0;
    weights[middle] = 65_536.0 - weights.iter().sum::<f64>();
    weights
}

fn gaussian(sigma: f64, kind: Sample, at: impl Fn(i64, i64) -> f64) -> f64 {
    let weights = weights(sigma);
    let reach = i64::try_from(weights.len() / 2).unwrap();
    let places = || (-reach..=reach).zip(&weights);
    let whole = |x: i64| places().map(|(y, weight)| weight * at(x, y)).sum::<f64>();
    match kind {
        // All sums are whole numbers below 2^53, and halves are rounded up.
        Sample::U8 | Sample::I8 => {
            let column = |x| ((whole(x) + 256.0) / 512.0).floor();
            let sum: f64 = places().map(|(x, weight)| weight * column(x)).sum();
            ((sum + 4_194_304.0) / 8_388_608.0).floor()
        }
        Sample::U16 | Sample::I16 => {
            let sum: f64 = places().map(|(x, weight)| weight * whole(x)).sum();
            ((sum + 2_147_483_648.0) / 4_294_967_296.0).floor()
        }
        Sample::F32 => {
            let fold = |at: &dyn Fn(i64) -> f32| {
                let weight =
                    |away: i64| narrow(weights[usize::try_from(reach + away).unwrap()] / 65_536.0);
                let first = weight(0) * at(0);
                (1..=reach).fold(first, |sum, away| sum + weight(away) * (at(-away) + at(away)))
            };
            match weights[weights.len() / 2] {
                65_536.0 => at(0, 0),
                _ => f64::from(fold(&|x| fold(&|y| narrow(at(x, y))))),
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the value was an f32")]
fn narrow(value: f64) -> f32 {
    value as f32
}
