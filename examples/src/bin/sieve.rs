//! The sieve of Eratosthenes: numbers flow through a ring of threads.
//!
//! Every prime found so far is a filter. A number that no filter divides is a new prime and becomes
//! the next filter. Slave `i % 5` holds filter `i`. The master sends the numbers and collects the
//! primes.

use clap::Parser;
use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

/// Finds the prime numbers up to a maximum
#[derive(Parser)]
#[command(after_help = "Example: cargo run -p pario-examples --bin sieve -- \
                  --placement examples/sieve.toml 1000")]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// The maximum
    #[arg(default_value_t = 100)]
    maximum: u64,
}

const SLAVES: usize = 5;

#[derive(Serialize, Deserialize)]
struct Number {
    value: u64,
    /// The next filter.
    filter: usize,
    fate: Fate,
}

#[derive(PartialEq, Serialize, Deserialize)]
enum Fate {
    Open,
    Prime,
    Divided,
}

impl Number {
    fn generate(_: &u64, value: u64) -> Option<Self> {
        Some(Self { value, filter: 0, fate: Fate::Open })
    }

    fn is_open(&self) -> bool {
        self.fate == Fate::Open
    }

    fn gather(primes: &mut Vec<u64>, number: Self) {
        if number.fate == Fate::Prime {
            primes.push(number.value);
        }
    }
}

/// Keeps every fifth prime.
#[derive(Default)]
struct Slave {
    primes: Vec<u64>,
}

impl Slave {
    fn filter(&mut self, mut number: Number) -> Number {
        match self.primes.get(number.filter / SLAVES) {
            None => {
                self.primes.push(number.value);
                number.fate = Fate::Prime;
            }
            Some(prime) if number.value.is_multiple_of(*prime) => number.fate = Fate::Divided,
            Some(_) => number.filter += 1,
        }
        number
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut program = Program::new("sieve");
    let master = program.thread("Master", || ());
    let slave = program.pool("Slave", SLAVES, |_| Slave::default());

    #[rustfmt::skip]
    let primes = program.operation("primes", |b| b
        .on(master)
        .split_indexed(|maximum: &u64| 2..maximum + 1, Number::generate)
            .repeat_while(Number::is_open, |b| b
                .on(slave.at(|number: &Number| number.filter % SLAVES)).run(Slave::filter))
        .merge(master, |_| Vec::new(), Number::gather));

    let run = arguments.options.launch(program)?;
    arguments.options.draw(&[run.graph(primes)])?;
    let mut primes = run.call(primes, arguments.maximum)?;
    primes.sort_unstable();
    println!("{} prime numbers up to {}:", primes.len(), arguments.maximum);
    for line in primes.chunks(10) {
        println!("{}", line.iter().map(|prime| format!("{prime:6}")).collect::<String>());
    }
    Ok(())
}
