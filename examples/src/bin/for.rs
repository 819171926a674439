//! For: the token goes through the body once for every index of a range.
//!
//! Pascal's triangle, row by row. Two threads take turns: the index of the loop says whose it is.

use clap::Parser;
use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

/// Prints Pascal's triangle
#[derive(Parser)]
#[command(after_help = "Example: for --placement examples/for.toml 10")]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// How many rows
    #[arg(default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=60))]
    height: u64,
}

#[derive(Serialize, Deserialize)]
struct Triangle {
    height: u64,
    rows: Vec<Vec<u64>>,
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
    let arguments = Arguments::parse();
    let mut program = Program::new("pascal");
    let client = program.thread("Client", || ());
    let writer = program.pool("Writer", 2, |_| Writer);

    #[rustfmt::skip]
    let triangle = program.operation("triangle", |b| b
        .on(client)
        .repeat(|triangle: &Triangle| 0..triangle.height, |b| b
            .on(writer.at_indexed(|_, at| at[0] as usize % 2)).run(Writer::add_row)));

    let run = arguments.options.launch(program)?;
    arguments.options.draw(&[run.graph(triangle)])?;
    let height = arguments.height;
    for row in run.call(triangle, Triangle { height, rows: Vec::new() })?.rows {
        let row: Vec<String> = row.iter().map(u64::to_string).collect();
        println!("{}", row.join(" "));
    }
    Ok(())
}
