//! Parallel-while: a function takes tokens out of the input until none is left; all pass the same
//! body at the same time, and their results are merged.
//!
//! The most frequent words of a rhyme. The first free thread counts the next line.

use std::collections::BTreeMap;

use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

const RHYME: &str = "\
    A big black bug bit a big black bear,\n\
    made the big black bear bleed blood.\n\
    A big black bear bit a big black bug,\n\
    made the big black bug bleed blood.";

type Counts = BTreeMap<String, usize>;

#[derive(Serialize, Deserialize)]
struct Text {
    lines: Vec<String>,
}

impl Text {
    fn next_line(&mut self) -> Option<String> {
        self.lines.pop()
    }
}

fn count_words(_: &mut (), line: String) -> Counts {
    let mut counts = Counts::new();
    for word in line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    counts
}

fn add(total: &mut Counts, counts: Counts) {
    for (word, count) in counts {
        *total.entry(word).or_default() += count;
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse("parallel-while", "Counts the words of a rhyme");
    let mut program = Program::new("words");
    let client = program.thread("Client", || ());
    let counter = program.pool("Counter", 3, |_| ());

    #[rustfmt::skip]
    let count = program.operation("count", |b| b
        .on(client)
        .split_while(Text::next_line)
            .on(counter.any()).run(count_words)
        .merge(client, |_| Counts::new(), add));

    let run = options.launch(program)?;
    options.draw(&[run.graph(count)])?;
    let lines = RHYME.lines().map(str::to_owned).collect();
    let mut words: Vec<_> = run.call(count, Text { lines })?.into_iter().collect();
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (word, count) in words.iter().take(5) {
        println!("{count:3} {word}");
    }
    Ok(())
}
