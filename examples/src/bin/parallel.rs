//! Parallel: different bodies at the same time, each with its own split and merge function.
//!
//! Three threads compute the mean, the median and the range of a list of numbers.

use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

type Numbers = Vec<f64>;

#[derive(Serialize, Deserialize)]
struct Summary {
    count: usize,
    mean: f64,
    median: f64,
    range: (f64, f64),
}

impl Summary {
    fn begin(numbers: &Numbers) -> Self {
        Self { count: numbers.len(), mean: 0.0, median: 0.0, range: (0.0, 0.0) }
    }
    fn set_mean(&mut self, mean: f64) {
        self.mean = mean;
    }
    fn set_median(&mut self, median: f64) {
        self.median = median;
    }
    fn set_range(&mut self, range: (f64, f64)) {
        self.range = range;
    }
}

fn mean(_: &mut (), numbers: Numbers) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

fn median(_: &mut (), mut numbers: Numbers) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 {
        numbers[middle]
    } else {
        (numbers[middle - 1] + numbers[middle]) / 2.0
    }
}

fn range(_: &mut (), numbers: Numbers) -> (f64, f64) {
    numbers.iter().fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(*n), high.max(*n)))
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse("parallel", "Describes a list of numbers");
    let mut program = Program::new("statistics");
    let client = program.thread("Client", || ());
    let worker = program.pool("Worker", 3, |_| ());

    #[rustfmt::skip]
    let describe = program.operation("describe", |b| b
        .on(client)
        .parallel(client, Summary::begin, |branches| branches
            .branch(Numbers::clone, |b| b.on(worker.thread(0)).run(mean), Summary::set_mean)
            .branch(Numbers::clone, |b| b.on(worker.thread(1)).run(median), Summary::set_median)
            .branch(Numbers::clone, |b| b.on(worker.thread(2)).run(range), Summary::set_range)));

    let run = options.launch(program)?;
    options.draw(&[run.graph(describe)])?;
    let Summary { count, mean, median, range } =
        run.call(describe, vec![31.0, 4.0, 15.0, 92.0, 65.0, 35.0])?;
    println!("{count} numbers from {} to {}", range.0, range.1);
    println!("mean {mean:.2}, median {median:.2}");
    Ok(())
}
