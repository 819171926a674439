//! A pipeline of five stages with different service times, measured with several windows.
//!
//! With a window of 1 the stages work one after the other. With a larger window they work at the
//! same time; with 4 tokens the slowest stage is always busy, and further tokens only wait. The
//! automatic window finds this size at run time.
//!
//! `PARIO_TRACE=trace` writes a timing diagram to `trace.svg`; choose one window and few tokens.

use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use pario_examples::Options;
use pario_flow::{Program, Window};

/// Measures a five-stage pipeline with several windows
#[derive(Parser)]
#[command(
    after_help = "Example: PARIO_TRACE=trace cargo run -p pario-examples --bin five-stages -- \
                  --window 4 --tokens 12"
)]
struct Arguments {
    #[command(flatten)]
    options: Options,

    /// Service times of the stages, in milliseconds
    #[arg(long, value_name = "MS,MS,MS,MS,MS", value_delimiter = ',',
          default_values_t = [5.0, 16.0, 20.0, 10.0, 15.0])]
    stages: Vec<f64>,

    /// Number of tokens
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    tokens: u64,

    /// Limit of tokens under way: 4, or 2x5 for two batches of five, or automatic
    #[arg(long = "window", value_delimiter = ',', value_parser = window,
          default_values = ["1", "2", "3", "4", "10", "2x5", "automatic"])]
    windows: Vec<Window>,
}

struct Stage {
    takes: Duration,
}

impl Stage {
    fn work(&mut self, token: u64) -> u64 {
        std::thread::sleep(self.takes);
        token
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let stages = arguments.stages.clone();
    anyhow::ensure!(stages.len() == 5, "--stages needs five times, not {}", stages.len());
    let mut program = Program::new("five stages");
    let master = program.thread("Master", || ());
    let stage = program
        .pool("Stage", 5, move |i| Stage { takes: Duration::from_secs_f64(stages[i] / 1000.0) });

    let mut pipelines = Vec::new();
    for window in &arguments.windows {
        #[rustfmt::skip]
        let pipeline = program.operation(&format!("window {window}"), |b| b
            .on(master)
            .window(*window)
            .split_indexed(|tokens: &u64| 0..*tokens, |_, token| Some(token))
                .on(stage.thread(0)).run(Stage::work)
                .on(stage.thread(1)).run(Stage::work)
                .on(stage.thread(2)).run(Stage::work)
                .on(stage.thread(3)).run(Stage::work)
                .on(stage.thread(4)).run(Stage::work)
            .merge(master, |_| 0, |count: &mut u64, _| *count += 1));
        pipelines.push(pipeline);
    }

    let run = arguments.options.launch(program)?;
    arguments.options.draw(&[run.graph(pipelines[0])])?;
    println!(
        "{:>9} {:>11} {:>11} {:>6} {:>10}",
        "window", "predicted", "measured", "ratio", "under way"
    );
    for (window, pipeline) in arguments.windows.iter().zip(pipelines) {
        let began = Instant::now();
        let merged = run.call(pipeline, arguments.tokens)?;
        let measured_s = began.elapsed().as_secs_f64();
        anyhow::ensure!(merged == arguments.tokens, "{merged} tokens were merged");
        let predicted_s = predict_s(&arguments.stages, arguments.tokens, *window);
        let steps = run.snapshot().steps;
        let of_this = steps.iter().filter(|step| step.operation == run.graph(pipeline).name);
        let under_way = of_this.map(|step| step.peak).max().unwrap_or(0);
        println!(
            "{:>9} {predicted_s:>9.3} s {measured_s:>9.3} s {:>6.3} {under_way:>10}",
            window.to_string(),
            measured_s / predicted_s
        );
    }
    Ok(())
}

/// Returns the expected time. If the window is too small, the tokens pass in rounds of the window's
/// size; otherwise one round trip, and the slowest stage once for every further token.
fn predict_s(stages_ms: &[f64], tokens: u64, window: Window) -> f64 {
    let round_trip: f64 = stages_ms.iter().sum();
    let slowest = stages_ms.iter().copied().fold(0.0, f64::max);
    let full_speed = round_trip + (tokens - 1) as f64 * slowest;
    let predicted_ms = match window {
        Window::Fixed(window) if (window as f64) * slowest < round_trip => {
            let rounds = tokens.div_ceil(window as u64) as f64;
            (window as f64 - 1.0) * slowest + rounds * round_trip
        }
        _ => full_speed,
    };
    predicted_ms / 1000.0
}

fn window(text: &str) -> anyhow::Result<Window> {
    let number = |text: &str| match text.parse() {
        Ok(0) => anyhow::bail!("a window must be at least one token"),
        other => other.context("write a number, or 2x5, or automatic"),
    };
    match text.split_once('x') {
        _ if text == "automatic" => Ok(Window::automatic()),
        Some((batches, size)) => Ok(Window::batches(number(batches)?, number(size)?)),
        None => Ok(Window::fixed(number(text)?)),
    }
}
