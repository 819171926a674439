//! While: the token passes the body as long as it meets a condition, which is evaluated before each
//! iteration.
//!
//! Square roots by Heron's method: improve a guess until its square is close enough.

use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Guess {
    number: f64,
    root: f64,
    rounds: u32,
}

impl Guess {
    fn is_rough(&self) -> bool {
        (self.root * self.root - self.number).abs() > 1e-9 * self.number
    }
}

struct Heron;

impl Heron {
    fn improve(&mut self, mut guess: Guess) -> Guess {
        guess.root = (guess.root + guess.number / guess.root) / 2.0;
        guess.rounds += 1;
        guess
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse("while", "Computes square roots");
    let mut program = Program::new("roots");
    let client = program.thread("Client", || ());
    let heron = program.thread("Heron", || Heron);

    #[rustfmt::skip]
    let square_root = program.operation("square root", |b| b
        .on(client)
        .repeat_while(Guess::is_rough, |b| b
            .on(heron).run(Heron::improve)));

    let run = options.launch(program)?;
    options.draw(&[run.graph(square_root)])?;
    for number in [2.0, 49.0, 1e6] {
        let guess = run.call(square_root, Guess { number, root: number, rounds: 0 })?;
        println!("√{number} = {:.6} after {} rounds", guess.root, guess.rounds);
    }
    Ok(())
}
