//! Indexed-parallel: one token for every combination of indices, some of them skipped; all pass the
//! same body at the same time and are merged with their indices.
//!
//! The distances between cities. Distances are symmetric, so only the pairs above the diagonal are
//! computed.
#![expect(clippy::cast_possible_truncation, reason = "few cities, on a small planet")]

use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
struct City {
    name: String,
    latitude: f64,
    longitude: f64,
}

type Map = Vec<City>;
type Table = Vec<Vec<u32>>;

fn pair(cities: &Map, (from, to): (u64, u64)) -> Option<(City, City)> {
    (from < to).then(|| (cities[from as usize].clone(), cities[to as usize].clone()))
}

/// Kilometres along a great circle, by the haversine formula.
fn distance(_: &mut (), (from, to): (City, City)) -> u32 {
    let half_sine = |a: f64, b: f64| ((a - b).to_radians() / 2.0).sin().powi(2);
    let east = half_sine(from.longitude, to.longitude)
        * from.latitude.to_radians().cos()
        * to.latitude.to_radians().cos();
    let square = half_sine(from.latitude, to.latitude) + east;
    (2.0 * 6371.0 * square.sqrt().asin()).round() as u32
}

fn enter(table: &mut Table, distance: u32, (from, to): (u64, u64)) {
    table[from as usize][to as usize] = distance;
    table[to as usize][from as usize] = distance;
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse("indexed-parallel", "Prints the distances between cities");
    let mut program = Program::new("distances");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 4, |_| ());

    #[rustfmt::skip]
    let distances = program.operation("distances", |b| b
        .on(client)
        .split_indexed(|cities: &Map| (0..cities.len() as u64, 0..cities.len() as u64), pair)
            .on(worker.at_indexed(|_, at| ((at[0] + at[1]) % 4) as usize)).run(distance)
        .merge_indexed(client, |cities| vec![vec![0; cities.len()]; cities.len()], enter));

    let run = options.launch(program)?;
    options.draw(&[run.graph(distances)])?;
    let cities = [
        ("Geneva", 46.20, 6.15),
        ("Lisbon", 38.72, -9.14),
        ("Nairobi", -1.29, 36.82),
        ("Quito", -0.18, -78.47),
        ("Tokyo", 35.68, 139.69),
    ];
    let cities = cities
        .map(|(name, latitude, longitude)| City { name: name.into(), latitude, longitude })
        .to_vec();
    let table = run.call(distances, cities.clone())?;
    for (city, row) in cities.iter().zip(&table) {
        let row: String = row.iter().map(|distance| format!("{distance:7}")).collect();
        println!("{:8}{row}", city.name);
    }
    Ok(())
}
