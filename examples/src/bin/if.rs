//! If: a token that meets a condition passes the body; any other token skips it.
//!
//! Parcels from abroad pass customs, which adds a duty; all others go straight to the counter.

use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Parcel {
    from: String,
    value: u32,
    duty: u32,
}

impl Parcel {
    fn is_from_abroad(&self) -> bool {
        self.from != "Lausanne"
    }
}

struct Customs;
struct Counter;

impl Customs {
    fn inspect(&mut self, mut parcel: Parcel) -> Parcel {
        parcel.duty = parcel.value / 10;
        parcel
    }
}

impl Counter {
    fn hand_out(&mut self, parcel: Parcel) -> String {
        format!("parcel from {}: worth {}, duty {}", parcel.from, parcel.value, parcel.duty)
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse(
        "if",
        "Hands out parcels; those from abroad pay a tenth of their value as duty",
    );
    let mut program = Program::new("post office");
    let counter = program.thread("Counter", || Counter);
    let customs = program.thread("Customs", || Customs);

    #[rustfmt::skip]
    let deliver = program.operation("deliver", |b| b
        .on(counter)
        .when(Parcel::is_from_abroad, |b| b
            .on(customs).run(Customs::inspect))
        .on(counter).run(Counter::hand_out));

    let run = options.launch(program)?;
    options.draw(&[run.graph(deliver)])?;
    for (from, value) in [("Lausanne", 120), ("Lima", 300), ("Oslo", 70)] {
        println!("{}", run.call(deliver, Parcel { from: from.into(), value, duty: 0 })?);
    }
    Ok(())
}
