//! A node with an additional operation on extents, and a client that calls it.
//!
//! The node counts words where the text is stored; each node returns one small table.
//!
//! ```text
//! cargo run -p pario-examples --bin own-operation -- serve /tmp/words &    # a node with the operation
//! cargo run -p pario-examples --bin own-operation -- count /tmp/words
//! pario --cluster /tmp/words stop
//! ```

use std::collections::BTreeMap;

use anyhow::bail;
use pario::operation::{ExtentInput, fold};
use pario::{Cluster, ExtentIndex, ExtentPlacement, SubfileIndex};
use pario_server::Node;

type Words = BTreeMap<String, u64>;

const TEXT: [&str; 4] = [
    "the disk turns and the arm moves",
    "the arm reads what the disk holds",
    "what moves costs more than what stays",
    "so the work goes to the disk",
];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", directory] => serve(directory),
        ["count", directory] => count(directory),
        _ => bail!("Example: own-operation serve DIRECTORY, then own-operation count DIRECTORY"),
    }
}

/// Runs a node with four disks in the directory until it is stopped.
fn serve(directory: &str) -> anyhow::Result<()> {
    let count = fold(
        |shortest: &usize, words: &mut Words, input: &ExtentInput<'_>| {
            let text = std::str::from_utf8(input.body()).map_err(|error| error.to_string())?;
            for word in text.split_whitespace().filter(|word| word.len() >= *shortest) {
                *words.entry(word.to_owned()).or_default() += 1;
            }
            Ok::<(), String>(())
        },
        add,
    );
    Ok(Node::new().operation("words", count).data(directory).run()?)
}

/// Adds the counts of another part.
fn add(words: &mut Words, others: Words) {
    for (word, count) in others {
        *words.entry(word).or_default() += count;
    }
}

/// Writes a text, one line per extent, and lets the node count its words.
fn count(directory: &str) -> anyhow::Result<()> {
    let cluster = Cluster::connect(directory)?;
    let text = cluster.options().read(true).write(true).create(true).extents().open("/text")?;
    for (number, line) in (0..).zip(TEXT) {
        let place = ExtentPlacement { subfile: SubfileIndex(number), extent: ExtentIndex(0) };
        text.write_extent(b"", line.as_bytes(), place)?;
    }
    let words = cluster.process(&text).operation("words", 4usize).merge(add)?;
    for (word, count) in words.unwrap_or_default().iter().filter(|(_, count)| **count > 1) {
        println!("{word}: {count}");
    }
    Ok(())
}
