//! A resident program, and processes that attach to it.
//!
//! `attach serve` launches the program and waits until its standard input ends. `attach count TEXT`
//! attaches to it and counts the words of a text: the calling process splits the text and merges
//! the counts, the workers of the resident program count. `attach longest TEXT` is an operation that
//! only the calling process has; it uses one of the resident program as a step.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Parser, Subcommand};
use pario_flow::{AttachOptions, Key, OperationRef, Program, ResidentAddress};
use serde::{Deserialize, Serialize};

/// A resident program, and processes that attach to it
#[derive(Parser)]
#[command(after_help = "Example: attach serve &  attach count 'the cat and the dog'")]
struct Arguments {
    /// Name of the resident program
    #[arg(long, default_value = "word counter")]
    name: String,

    /// Attach over TCP, or serve TCP too; needs --key-file
    #[arg(long, value_name = "IP:PORT", requires = "key_file")]
    tcp: Option<SocketAddr>,

    /// File with the key of the program, 64 hexadecimal digits
    #[arg(long, value_name = "FILE", requires = "tcp")]
    key_file: Option<PathBuf>,

    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Launch the program and serve until the standard input ends
    Serve,
    /// Count the words of a text
    Count { text: String },
    /// Find the longest word of a text
    Longest { text: String },
}

type Counts = BTreeMap<String, u64>;

#[derive(Serialize, Deserialize)]
struct Text {
    words: Vec<String>,
}

impl Text {
    fn next_word(&mut self) -> Option<String> {
        self.words.pop()
    }
}

fn add(counts: &mut Counts, word: String) {
    *counts.entry(word).or_default() += 1;
}

/// The operations that the resident program and its clients share.
struct Shared {
    lower: OperationRef<String, String>,
    count: OperationRef<Text, Counts>,
}

/// Builds the program: the resident process and its clients run the same code.
#[rustfmt::skip]
fn program(name: &str) -> (Program, Shared) {
    let mut program = Program::new(name);
    let caller = program.caller_thread("Caller", || ()); // one in each calling process
    let worker = program.pool("Worker", 4, |_| ()); // in the resident process
    let lower = program.operation("lower", |b| b
        .on(worker.any()).run(|_, word: String| word.to_lowercase()));
    let count = program.operation("count", |b| b
        .on(caller)
        .split_while(Text::next_word)
            .call(lower)
        .merge(caller, |_| Counts::new(), add));
    (program, Shared { lower, count })
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let key = arguments.key_file.as_deref().map(read_key).transpose()?;
    let tcp = arguments.tcp.zip(key);
    let (mut program, shared) = program(&arguments.name);
    let text = match &arguments.action {
        Action::Serve => return serve(program, tcp),
        Action::Count { text } | Action::Longest { text } => text,
    };
    let words = text.split_whitespace().map(str::to_owned).collect();
    let resident = match tcp {
        Some((address, key)) => ResidentAddress::Tcp(address, key),
        None => ResidentAddress::ThisMachine,
    };
    if matches!(arguments.action, Action::Count { .. }) {
        let run = program.attach(&resident)?;
        for (word, count) in run.call(shared.count, Text { words })? {
            println!("{count:3} {word}");
        }
        return Ok(());
    }
    // An operation that the resident program does not have, on a thread of this process.
    let own = program.thread("Own", || ());
    #[rustfmt::skip]
    let longest = program.operation("longest", |b| b
        .on(own)
        .split_while(Text::next_word)
            .call(shared.lower)
        .merge(own, |_| String::new(), |longest: &mut String, word: String| {
            if (word.len(), &word) > (longest.len(), longest) {
                *longest = word;
            }
        }));
    let run = program.attach(&resident)?;
    println!("{}", run.call(longest, Text { words })?);
    Ok(())
}

fn serve(mut program: Program, tcp: Option<(SocketAddr, Key)>) -> anyhow::Result<()> {
    let mut options = AttachOptions::this_user();
    if let Some((address, key)) = tcp {
        options = options.tcp(address, key);
    }
    program.allow_attach(options);
    let run = program.launch(None)?;
    match run.tcp_address() {
        Some(address) => println!("serving at {address}"),
        None => println!("serving"),
    }
    // Serves until the standard input ends.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn read_key(path: &Path) -> anyhow::Result<Key> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the key file {}", path.display()))?;
    Ok(Key::from_hex(text.trim())?)
}
