//! For: the token passes the body once for every index of a range.
//!
//! Pascal's triangle, row by row. The index of the loop selects one of two threads.

use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Triangle {
    height: u64,
    rows: Vec<Vec<u64>>,
}

impl Triangle {
    fn rows_wanted(&self) -> std::ops::Range<u64> {
        0..self.height
    }
}

struct Writer;

impl Writer {
    fn add_row(&mut self, mut triangle: Triangle) -> Triangle {
        let above = triangle.rows.last().map_or(&[] as &[u64], Vec::as_slice);
        let sums = above.windows(2).map(|pair| pair[0] + pair[1]);
        let row = std::iter::once(1).chain(sums).chain((!above.is_empty()).then_some(1));
        triangle.rows.push(row.collect());
        triangle
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse("for", "Prints Pascal's triangle");
    let mut program = Program::new("pascal");
    let client = program.thread("Client", || ());
    let writer = program.pool("Writer", 2, |_| Writer);

    #[rustfmt::skip]
    let triangle = program.operation("triangle", |b| b
        .on(client)
        .repeat(Triangle::rows_wanted, |b| b
            .on(writer.at_indexed(|_, at| (at[0] % 2) as usize)).run(Writer::add_row)));

    let run = options.launch(program)?;
    options.draw(&[run.graph(triangle)])?;
    for row in run.call(triangle, Triangle { height: 6, rows: Vec::new() })?.rows {
        let row: Vec<String> = row.iter().map(u64::to_string).collect();
        println!("{}", row.join(" "));
    }
    Ok(())
}
