//! Pipeline: one step after the other, each on a thread of its own.
//!
//! A telegraph office. The clerk writes down the text, the coder turns it into Morse code, the
//! operator keys it. Several telegrams are handed in at once: while the operator keys the first,
//! the coder has the second and the clerk the third.

use clap::Parser;
use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

/// Sends telegrams
#[derive(Parser)]
#[command(after_help = "Example: pipeline --placement examples/pipeline.toml 'Meet me at noon'")]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// The telegrams
    #[arg(default_values = ["Hello world", "Send money", "Good bye"])]
    texts: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Sheet {
    words: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Telegram {
    number: u32,
    morse: String,
}

struct Clerk;

impl Clerk {
    fn write_down(&mut self, text: String) -> Sheet {
        Sheet { words: text.split_whitespace().map(str::to_uppercase).collect() }
    }
}

struct Coder;

impl Coder {
    fn encode(&mut self, sheet: Sheet) -> String {
        let word = |word: &String| word.chars().filter_map(code).collect::<Vec<_>>().join(" ");
        sheet.words.iter().map(word).collect::<Vec<_>>().join(" / ")
    }
}

#[derive(Default)]
struct Operator {
    sent: u32,
}

impl Operator {
    fn key(&mut self, morse: String) -> Telegram {
        self.sent += 1;
        Telegram { number: self.sent, morse }
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut program = Program::new("telegraph office");
    let clerk = program.thread("Clerk", || Clerk);
    let coder = program.thread("Coder", || Coder);
    let operator = program.thread("Operator", Operator::default);

    #[rustfmt::skip]
    let send = program.operation("send", |b| b
        .on(clerk).run(Clerk::write_down)
        .on(coder).run(Coder::encode)
        .on(operator).run(Operator::key));

    let run = arguments.options.launch(program)?;
    arguments.options.draw(&[run.graph(send)])?;
    let requests: Result<Vec<_>, _> =
        arguments.texts.iter().map(|text| run.start(send, text.clone())).collect();
    for (text, request) in arguments.texts.iter().zip(requests?) {
        let Telegram { number, morse } = request.wait()?;
        println!("telegram {number}: {text}\n  {morse}");
    }
    Ok(())
}

fn code(letter: char) -> Option<&'static str> {
    const LETTERS: [&str; 26] = [
        ".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---", "-.-", ".-..", "--",
        "-.", "---", ".--.", "--.-", ".-.", "...", "-", "..-", "...-", ".--", "-..-", "-.--",
        "--..",
    ];
    let place = u32::from(letter).checked_sub(u32::from('A'))?;
    LETTERS.get(place as usize).copied()
}
