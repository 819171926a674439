//! If-else: one of two bodies, by a condition.
//!
//! A quadratic equation has real or complex roots. A separate thread computes each kind; both
//! results have the same type.

use pario_examples::Options;
use pario_flow::Program;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Equation {
    a: f64,
    b: f64,
    c: f64,
}

impl Equation {
    fn discriminant(&self) -> f64 {
        self.b * self.b - 4.0 * self.a * self.c
    }

    fn is_real(&self) -> bool {
        self.discriminant() >= 0.0
    }
}

struct Solver;

impl Solver {
    fn real_roots(&mut self, equation: Equation) -> String {
        let Equation { a, b, .. } = equation;
        let root = equation.discriminant().sqrt();
        format!("{} and {}", (-b + root) / (2.0 * a), (-b - root) / (2.0 * a))
    }

    fn complex_roots(&mut self, equation: Equation) -> String {
        let Equation { a, b, .. } = equation;
        format!("{} ± {} i", -b / (2.0 * a), (-equation.discriminant()).sqrt() / (2.0 * a))
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse("if-else", "Solves quadratic equations");
    let mut program = Program::new("equations");
    let client = program.thread("Client", || ());
    let real = program.thread("Real", || Solver);
    let complex = program.thread("Complex", || Solver);

    #[rustfmt::skip]
    let solve = program.operation("solve", |b| b
        .on(client)
        .if_else(Equation::is_real,
            |b| b.on(real).run(Solver::real_roots),
            |b| b.on(complex).run(Solver::complex_roots)));

    let run = options.launch(program)?;
    options.draw(&[run.graph(solve)])?;
    for [a, b, c] in [[1.0, -3.0, 2.0], [1.0, 2.0, 5.0], [2.0, 4.0, 2.0]] {
        println!("{a} x² + {b} x + {c} = 0: {}", run.call(solve, Equation { a, b, c })?);
    }
    Ok(())
}
