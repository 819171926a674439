//! Pipeline: one step after the other, each on a separate thread.
//!
//! A telegraph office. The clerk writes down the text, the coder encrypts it, the operator keys it.
//! Several telegrams are under way at once: while the operator keys the first, the coder has the
//! second and the clerk the third.

use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Telegram {
    number: u32,
    text: String,
}

struct Clerk;
struct Coder;
struct Operator {
    sent: u32,
}

impl Clerk {
    fn write_down(&mut self, text: String) -> String {
        text.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_uppercase()
    }
}

impl Coder {
    /// Shifts every letter by three, as in Caesar's cipher.
    fn encode(&mut self, text: String) -> String {
        text.bytes().map(|letter| char::from((letter - b'A' + 3) % 26 + b'A')).collect()
    }
}

impl Operator {
    fn key(&mut self, text: String) -> Telegram {
        self.sent += 1;
        Telegram { number: self.sent, text }
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse("pipeline", "Sends telegrams in cipher");
    let mut program = Program::new("telegraph office");
    let clerk = program.thread("Clerk", || Clerk);
    let coder = program.thread("Coder", || Coder);
    let operator = program.thread("Operator", || Operator { sent: 0 });

    #[rustfmt::skip]
    let send = program.operation("send", |b| b
        .on(clerk).run(Clerk::write_down)
        .on(coder).run(Coder::encode)
        .on(operator).run(Operator::key));

    let run = options.launch(program)?;
    options.draw(&[run.graph(send)])?;
    let texts = ["Hello world", "Send money", "Good bye"];
    let requests: Result<Vec<_>, _> =
        texts.iter().map(|text| run.start(send, text.to_string())).collect();
    for request in requests? {
        let telegram = request.wait()?;
        println!("telegram {}: {}", telegram.number, telegram.text);
    }
    Ok(())
}
