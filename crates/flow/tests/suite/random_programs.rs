//! Programs of random shape compared with a plain function that evaluates the shape.
#![allow(clippy::cast_possible_truncation, reason = "the numbers are small")]

use pario_flow::{
    AnyThread, Chain, Continuation, OperationRef, PoolRef, Program, TopLevel, Window,
};
use proptest::prelude::*;

/// A program from numbers to numbers.
#[derive(Clone, Debug)]
enum Shape {
    /// `n * factor + 1`, on a thread of the pool.
    Run {
        factor: u64,
        place: Where,
    },
    /// The same, by a continuation that another thread calls.
    Later {
        factor: u64,
    },
    Sequence(Vec<Shape>),
    If(Box<Shape>),
    IfElse(Box<Shape>, Box<Shape>),
    While(Box<Shape>),
    For(u64, Box<Shape>),
    Parallel(Box<Shape>, Box<Shape>),
    Split {
        count: u64,
        window: Window,
        elsewhere: bool,
        body: Box<Shape>,
    },
    Adapted(Box<Shape>),
}

#[derive(Clone, Copy, Debug)]
enum Where {
    Computed,
    Any,
    First,
}

fn shape() -> impl Strategy<Value = Shape> {
    let place = prop_oneof![Just(Where::Computed), Just(Where::Any), Just(Where::First)];
    let leaf = prop_oneof![
        3 => (1..5u64, place).prop_map(|(factor, place)| Shape::Run { factor, place }),
        1 => (1..5u64).prop_map(|factor| Shape::Later { factor }),
    ];
    let window = prop_oneof![
        Just(Window::automatic()),
        (1..5usize).prop_map(Window::fixed),
        (1..4usize, 1..4usize).prop_map(|(bunches, size)| Window::batches(bunches, size)),
    ];
    leaf.prop_recursive(4, 12, 3, move |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Shape::Sequence),
            boxed().prop_map(Shape::If),
            (boxed(), boxed()).prop_map(|(a, b)| Shape::IfElse(a, b)),
            boxed().prop_map(Shape::While),
            (0..4u64, boxed()).prop_map(|(count, body)| Shape::For(count, body)),
            (boxed(), boxed()).prop_map(|(a, b)| Shape::Parallel(a, b)),
            boxed().prop_map(Shape::Adapted),
            (0..12u64, window.clone(), any::<bool>(), boxed()).prop_map(
                |(count, window, elsewhere, body)| Shape::Split { count, window, elsewhere, body }
            ),
        ]
    })
}

/// The token: a number, and the remaining iterations of a *while*.
type Number = (u64, u8);

fn step(n: u64, factor: u64) -> u64 {
    n.wrapping_mul(factor).wrapping_add(1)
}

fn add(sum: &mut Number, (n, _): Number) {
    sum.0 = sum.0.wrapping_add(n);
}

fn evaluate(shape: &Shape, (n, rounds): Number) -> Number {
    match shape {
        Shape::Run { factor, .. } | Shape::Later { factor } => (step(n, *factor), rounds),
        Shape::Sequence(list) => list.iter().fold((n, rounds), |n, shape| evaluate(shape, n)),
        Shape::If(body) if n % 2 == 0 => evaluate(body, (n, rounds)),
        Shape::If(_) => (n, rounds),
        Shape::IfElse(a, b) => evaluate(if n % 2 == 0 { a } else { b }, (n, rounds)),
        Shape::While(body) => {
            let mut number = (n, 2);
            while number.1 > 0 {
                let (n, _) = evaluate(body, (number.0, number.1 - 1));
                number = (n, number.1 - 1);
            }
            (number.0, rounds)
        }
        Shape::For(count, body) => (0..*count).fold((n, rounds), |n, _| evaluate(body, n)),
        Shape::Parallel(a, b) => {
            let mut sum = (n, rounds);
            add(&mut sum, evaluate(a, (n, 0)));
            add(&mut sum, evaluate(b, (n.wrapping_add(1), 0)));
            sum
        }
        Shape::Split { count, body, .. } => {
            let mut sum = (n, rounds);
            for index in (0..*count).filter(|index| index % 5 != 3) {
                add(&mut sum, evaluate(body, (n ^ index, 0)));
            }
            sum
        }
        Shape::Adapted(body) => (evaluate(body, (n, 0)).0, rounds),
    }
}

struct Builder {
    program: Program,
    client: PoolRef<u64>,
    pool: PoolRef<u64>,
    later: std::sync::mpsc::Sender<(Number, Continuation<Number>)>,
}

impl Builder {
    /// An operation of this shape.
    fn operation(&mut self, shape: &Shape) -> OperationRef<Number, Number> {
        let name = format!("operation {}", fastrand::u64(..));
        let client = self.client;
        // Inner operations must be defined first.
        let inner = self.inner(shape);
        let pool = self.pool;
        let later = self.later.clone();
        self.program.operation(&name, |b| {
            add_shape(
                shape,
                b.on(client.thread(0)).when(|_| false, |b| b),
                pool,
                client,
                inner,
                later,
            )
        })
    }

    fn inner(&mut self, shape: &Shape) -> Vec<OperationRef<Number, Number>> {
        match shape {
            Shape::Run { .. } | Shape::Later { .. } => Vec::new(),
            Shape::Sequence(list) => list.iter().map(|shape| self.operation(shape)).collect(),
            Shape::If(a) | Shape::While(a) | Shape::For(_, a) | Shape::Adapted(a) => {
                vec![self.operation(a)]
            }
            Shape::Split { body, .. } => vec![self.operation(body)],
            Shape::IfElse(a, b) | Shape::Parallel(a, b) => {
                vec![self.operation(a), self.operation(b)]
            }
        }
    }
}

type Plain = Chain<Number, Number, AnyThread, TopLevel>;

fn add_shape(
    shape: &Shape,
    b: Plain,
    pool: PoolRef<u64>,
    client: PoolRef<u64>,
    inner: Vec<OperationRef<Number, Number>>,
    later: std::sync::mpsc::Sender<(Number, Continuation<Number>)>,
) -> Plain {
    let never = |_: &Number| false;
    match shape.clone() {
        Shape::Run { factor, place } => {
            let run = move |seen: &mut u64, (n, rounds): Number| {
                *seen += 1;
                (step(n, factor), rounds)
            };
            match place {
                Where::Computed => {
                    b.on(pool.at(|(n, _): &Number| *n as usize % 3)).run(run).when(never, |b| b)
                }
                Where::Any => b.on(pool.any()).run(run).when(never, |b| b),
                Where::First => b.on(pool.thread(0)).run(run).when(never, |b| b),
            }
        }
        Shape::Later { factor } => b
            .on(pool.any())
            .run_async(move |_, (n, rounds): Number, next| {
                later.send(((step(n, factor), rounds), next)).unwrap();
            })
            .when(never, |b| b),
        Shape::Sequence(_) => inner.into_iter().fold(b, |b, operation| b.call(operation)),
        Shape::If(_) => b.when(|(n, _)| n % 2 == 0, |b| b.call(inner[0])),
        Shape::IfElse(..) => {
            b.if_else(|(n, _)| n % 2 == 0, |b| b.call(inner[0]), |b| b.call(inner[1]))
        }
        Shape::While(_) => b
            .call_adapted(client.thread(0), inner[0], |n| *n, |_, _| ())
            .map(|(n, rounds)| ((n, rounds), (n, 2u8)))
            .repeat_while(
                |(_, (_, rounds)): &(Number, Number)| *rounds > 0,
                |b| {
                    b.map(|(outer, (n, rounds))| (outer, (n, rounds - 1))).call_adapted(
                        client.thread(1),
                        inner[0],
                        |(_, number)| *number,
                        |(_, number), (n, _)| number.0 = n,
                    )
                },
            )
            .map(|((_, rounds), (n, _))| (n, rounds))
            .when(never, |b| b),
        Shape::For(count, _) => b.repeat(move |_| 0..count, |b| b.call(inner[0])),
        Shape::Parallel(..) => b
            .parallel(
                client.thread(1),
                |n| *n,
                |branches| {
                    branches.branch(|(n, _)| (*n, 0), |b| b.call(inner[0]), add).branch(
                        |(n, _)| (n.wrapping_add(1), 0),
                        |b| b.call(inner[1]),
                        add,
                    )
                },
            )
            .when(never, |b| b),
        Shape::Split { count, window, elsewhere, .. } => b
            .window(window)
            .split_indexed(
                move |_| 0..count,
                |(n, _), index| (index % 5 != 3).then_some((n ^ index, 0)),
            )
            .call(inner[0])
            .merge(client.thread(usize::from(elsewhere)), |n| *n, add)
            .when(never, |b| b),
        Shape::Adapted(_) => b
            .call_adapted(client.thread(0), inner[0], |(n, _)| (*n, 0), |out, (n, _)| out.0 = n)
            .when(never, |b| b),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn programs_mean_what_they_say(shape in shape(), inputs in prop::collection::vec(0..1000u64, 1..4)) {
        let (later, kept) = std::sync::mpsc::channel::<(Number, Continuation<Number>)>();
        let mut program = Program::new("random");
        let client = program.pool("Client", 2, |_| 0u64);
        let pool = program.pool("Pool", 3, |_| 0u64);
        let mut builder = Builder { program, client, pool, later };
        let operation = builder.operation(&shape);
        let completer = std::thread::spawn(move || {
            kept.iter().for_each(|(number, next)| next.call(number));
        });
        let Builder { program, later, .. } = builder;
        drop(later);
        let run = program.launch(None).unwrap();
        let requests: Vec<_> =
            inputs.iter().map(|n| run.start(operation, (*n, 0)).unwrap()).collect();
        for (n, request) in inputs.iter().zip(requests) {
            prop_assert_eq!(request.wait().unwrap(), evaluate(&shape, (*n, 0)));
        }
        let snapshot = run.snapshot();
        prop_assert!(snapshot.calls.is_empty());
        prop_assert!(snapshot.threads.iter().all(|thread| thread.splits.is_empty()));
        drop(run);
        completer.join().unwrap();
    }
}
