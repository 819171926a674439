//! Attached processes that send what no honest one sends. The resident program cuts them off, and
//! serves the others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_net::{Address, Credit, InputPort, OutputPort, PortOptions, Space};
use proptest::prelude::*;

use super::attach_messages::{AttachReply, AttachRequest, ENTRANCE};
use super::attached::GuestMessage;
use super::construct_stack::{ConstructKind, ConstructStack, SplitFrame};
use super::entrance::entrance_path;
use super::ids::{CallId, ProcessNumber, SplitId, StepPosition, ThreadNumber};
use super::message::{
    ControlMessage, Envelope, FlowMessage, HopWaits, MergeBegin, Payload, RouteTo, ThreadClaim,
    TokenRoute,
};
use crate::token::TokenType;
use crate::window::TripReport;
use crate::{AttachOptions, OperationRef, Program, ResidentAddress, RunningProgram, Window};

const SOON: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
struct Operations {
    square: OperationRef<u64, u64>,
    sum: OperationRef<u64, u64>,
    outer: OperationRef<u64, u64>,
}

/// Thread 0 is the caller's, 1 to 3 are workers, 4 is the clerk.
fn program(name: &str) -> (Program, Operations) {
    let mut program = Program::new(name);
    let caller = program.caller_thread("Caller", || ());
    let worker = program.pool("Worker", 3, |_| 0_u64);
    let clerk = program.thread("Clerk", String::new);
    let square = program.operation("square", |b| {
        b.on(worker.any()).run(|calls: &mut u64, n: u64| {
            *calls += 1;
            n.wrapping_mul(n)
        })
    });
    let sum = program.operation("sum", |b| {
        b.on(clerk)
            .window(Window::batches(2, 4))
            .split_indexed(|n: &u64| 0..(*n).min(100), |_, i| Some(i))
            .on(worker.at_indexed(|_, at| usize::from(at[0] % 2 == 0)))
            .run(|_, i: u64| i)
            .merge(clerk, |_| 0, |sum: &mut u64, i| *sum = sum.wrapping_add(i))
    });
    let outer = program.operation("outer", |b| {
        b.on(caller)
            .split_indexed(|n: &u64| 0..(*n).min(50), |_, i| Some(i))
            .repeat(|_| 0..3, |b| b.on(worker.thread(1)).run(|_, i: u64| i))
            .call(square)
            .merge(clerk, |_| 0, |sum: &mut u64, i| *sum = sum.wrapping_add(i))
    });
    (program, Operations { square, sum, outer })
}

struct Attacked {
    name: String,
    run: RunningProgram,
    operations: Operations,
}

impl Attacked {
    fn start(test: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{test} {number} of {}", std::process::id());
        let (mut program, operations) = program(&name);
        program.allow_attach(AttachOptions::this_user());
        Self { run: program.launch(None).unwrap(), name, operations }
    }

    /// The resident program serves itself and an honest client.
    fn serves(&self, honest: &(RunningProgram, Operations)) {
        for (run, operations) in [(&self.run, self.operations), (&honest.0, honest.1)] {
            assert_eq!(run.call(operations.square, 7).unwrap(), 49);
            assert_eq!(run.call(operations.sum, 50).unwrap(), 1225);
            assert_eq!(run.call(operations.outer, 4).unwrap(), 14);
        }
    }

    fn honest(&self) -> (RunningProgram, Operations) {
        let (program, operations) = program(&self.name);
        (program.attach(&ResidentAddress::ThisMachine).unwrap(), operations)
    }

    /// Waits until only this many processes are attached.
    fn until_attached(&self, count: usize) {
        let began = Instant::now();
        while self.run.snapshot().attached.len() != count {
            assert!(began.elapsed() < SOON, "{:?}", self.run.snapshot().attached);
            std::thread::yield_now();
        }
    }

    fn was_refused(&self, words: &str) -> bool {
        self.run.refusals().iter().any(|refusal| refusal.reason.contains(words))
    }
}

/// A process that speaks the protocol by hand.
struct Attacker {
    _space: Space,
    port: InputPort<FlowMessage>,
    entrance: OutputPort<GuestMessage>,
    process: ProcessNumber,
}

impl Attacker {
    fn connect(program: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let address = Address::unix(entrance_path(program).unwrap());
        let space = Space::builder(&format!("attacker {number}")).listen_nowhere().join(&address);
        let space = space.build().unwrap();
        let options = PortOptions { credit_bytes: Credit::Unlimited };
        let port = space.input_with(&format!("port {number}"), options).unwrap();
        let entrance = space.output(ENTRANCE, SOON).unwrap();
        Self { _space: space, port, entrance, process: ProcessNumber(0) }
    }

    fn attach(program: &str) -> Self {
        let mut attacker = Self::connect(program);
        let request = AttachRequest {
            program: program.to_owned(),
            operations: Vec::new(),
            slots: Vec::new(),
        };
        let reply_channel = attacker.port.open_reply_channel(&attacker.entrance).unwrap();
        attacker.send(FlowMessage::Control(ControlMessage::Attach { reply_channel, request }));
        let reply: AttachReply = loop {
            if let FlowMessage::Control(ControlMessage::Attached(reply)) =
                attacker.port.recv_timeout(SOON).unwrap()
            {
                break reply.unwrap();
            }
        };
        attacker.process = reply.process;
        attacker
    }

    /// Sends a message, unless this process was cut off.
    fn send(&self, message: FlowMessage) {
        let _ = self.entrance.send(GuestMessage::new(message));
        self.entrance.flush();
    }

    fn send_to(&self, thread: Option<u32>, message: FlowMessage) {
        let to = RouteTo { process: ProcessNumber(0), thread: thread.map(ThreadNumber) };
        self.send(FlowMessage::Routed(to, Box::new(message)));
    }

    fn call(&self, number: u64) -> CallId {
        CallId { origin: self.process, number }
    }

    fn token(&self, operation: u32, step: u32, frames: Vec<ConstructKind>) -> FlowMessage {
        self.token_of(self.call(1), operation, step, frames)
    }

    fn token_of(
        &self,
        call: CallId,
        operation: u32,
        step: u32,
        frames: Vec<ConstructKind>,
    ) -> FlowMessage {
        let position = StepPosition { operation, step };
        let route = TokenRoute { call, oldest: 0, position, hop_waits: HopWaits::default() };
        let payload = Payload::Local(Box::new(5_u64), TokenType::of::<u64>());
        FlowMessage::Token(Envelope::now(route, ConstructStack::from_frames(frames), payload))
    }
}

fn frame(thread: u32, merge_at: u32) -> ConstructKind {
    ConstructKind::Split(SplitFrame {
        split: SplitId { thread: ThreadNumber(thread), number: 0 },
        merge_at: ThreadNumber(merge_at),
        number: 0,
        indices: vec![0],
        split_ns: 0,
        report_every: 1,
        batch: 0,
    })
}

fn control(message: ControlMessage) -> FlowMessage {
    FlowMessage::Control(message)
}

#[test]
fn messages_that_no_attached_process_sends_end_its_connection() {
    let attacked = Attacked::start("breaches");
    let honest = attacked.honest();
    type Attack = Box<dyn Fn(&Attacker)>;
    let other = ProcessNumber(ProcessNumber::FIRST_ATTACHED.0);
    let to_thread = |thread: u32, message: fn(&Attacker) -> FlowMessage| -> Attack {
        Box::new(move |attacker| attacker.send_to(Some(thread), message(attacker)))
    };
    let to_coordinator = |message: fn() -> ControlMessage| -> Attack {
        Box::new(move |attacker| attacker.send_to(None, control(message())))
    };
    let attacks: Vec<(&str, Attack)> = vec![
        // Threads, steps and processes that do not exist or are not its own.
        ("thread 99 of another", to_thread(99, |a| a.token(0, 1, vec![]))),
        ("thread 0 of another", to_thread(0, |a| a.token(0, 1, vec![]))),
        ("step 1 of operation 77", to_thread(1, |a| a.token(77, 1, vec![]))),
        ("step 4000000000 of operation 0", to_thread(1, |a| a.token(0, 4_000_000_000, vec![]))),
        ("step 0 of operation 0", to_thread(1, |a| a.token(0, 0, vec![]))),
        ("step 2 of operation 0 to thread Worker[0]", to_thread(1, |a| a.token(0, 2, vec![]))),
        // A step of the workers on the clerk, whose state is of another type.
        ("step 1 of operation 0 to thread Clerk", to_thread(4, |a| a.token(0, 1, vec![]))),
        // Frames that do not fit.
        ("constructs around its token", to_thread(1, |a| a.token(1, 3, vec![]))),
        ("constructs around its token", to_thread(1, |a| a.token(0, 1, vec![frame(0, 4)]))),
        ("constructs around its token", to_thread(1, |a| a.token(1, 3, vec![frame(4, 2)]))),
        (
            "constructs around its token",
            to_thread(1, |a| {
                let back = StepPosition { operation: 1, step: 3 };
                a.token(0, 1, vec![ConstructKind::Call { back, from: None }])
            }),
        ),
        (
            "2000 constructs are around a token",
            to_thread(1, |a| a.token(0, 1, vec![ConstructKind::For { index: 0, end: 1 }; 2000])),
        ),
        // Calls of others.
        (
            "a call of process 65536",
            Box::new(move |a| {
                let call = CallId { origin: other, number: 0 };
                a.send_to(Some(1), a.token_of(call, 0, 1, vec![]));
            }),
        ),
        (
            "a call of process 0",
            Box::new(|a| {
                let call = CallId { origin: ProcessNumber(0), number: 0 };
                a.send_to(None, control(ControlMessage::Abort { call }));
            }),
        ),
        (
            "a call of process 65536",
            Box::new(move |a| {
                let call = CallId { origin: other, number: 0 };
                let split = SplitId { thread: ThreadNumber(4), number: 0 };
                a.send_to(Some(4), control(ControlMessage::End { call, split, total: u64::MAX }));
            }),
        ),
        (
            "claimed thread Worker[0] for another",
            Box::new(move |a| {
                let FlowMessage::Token(mut envelope) = a.token(0, 1, vec![]) else {
                    unreachable!()
                };
                envelope.claim = Some(ThreadClaim { claimed_by: other, slot: 1 });
                a.send_to(Some(1), FlowMessage::Token(envelope));
            }),
        ),
        (
            "claimed thread Worker[0] for another",
            Box::new(|a| {
                let FlowMessage::Token(mut envelope) = a.token(0, 1, vec![]) else {
                    unreachable!()
                };
                envelope.claim = Some(ThreadClaim { claimed_by: a.process, slot: u32::MAX });
                a.send_to(Some(1), FlowMessage::Token(envelope));
            }),
        ),
        (
            "a thread that is not its own",
            Box::new(|a| {
                let (process, thread) = (a.process, ThreadNumber(1));
                a.send_to(None, control(ControlMessage::ThreadFree { process, slot: 1, thread }));
            }),
        ),
        (
            "a thread that is not its own",
            Box::new(move |a| {
                let thread = ThreadNumber(0);
                let free = ControlMessage::ThreadFree { process: other, slot: 0, thread };
                a.send_to(None, control(free));
            }),
        ),
        (
            "began a merge",
            Box::new(|a| {
                let begin = MergeBegin {
                    call: a.call(1),
                    oldest: 0,
                    split: SplitId { thread: ThreadNumber(0), number: 0 },
                    position: StepPosition { operation: 0, step: 1 },
                    outer: Vec::new(),
                    hop_waits: HopWaits::default(),
                    is_input: false,
                };
                let payload = Payload::Local(Box::new(1_u64), TokenType::of::<u64>());
                a.send_to(Some(4), FlowMessage::MergeBegin(begin, payload));
            }),
        ),
        // Messages between the processes of the program.
        ("only processes of the program", to_coordinator(|| ControlMessage::Stop)),
        (
            "only processes of the program",
            to_coordinator(|| ControlMessage::ProcessLost { process: ProcessNumber(0) }),
        ),
        (
            "only processes of the program",
            to_coordinator(|| ControlMessage::RequestReport { request: 0, wants_trace: true }),
        ),
        ("only processes of the program", to_thread(1, |_| control(ControlMessage::Stop))),
        (
            "only processes of the program",
            to_thread(4, |_| control(ControlMessage::Resume { split: 0 })),
        ),
        (
            "a message to process 7",
            Box::new(|a| {
                let to = RouteTo { process: ProcessNumber(7), thread: None };
                let abort = control(ControlMessage::Abort { call: a.call(0) });
                a.send(FlowMessage::Routed(to, Box::new(abort)));
            }),
        ),
        ("a message that no attached", Box::new(|a| a.send(control(ControlMessage::Stop)))),
        ("a message that no attached", Box::new(|a| a.send(a.token(0, 1, vec![])))),
    ];
    for (reason, attack) in attacks {
        let attacker = Attacker::attach(&attacked.name);
        attacked.until_attached(2);
        attack(&attacker);
        attacked.until_attached(1);
        assert!(attacked.was_refused(reason), "{reason}: {:?}", attacked.run.refusals().last());
        attacked.serves(&honest);
    }
    let early = Attacker::connect(&attacked.name);
    early.send(early.token(0, 1, vec![]));
    let began = Instant::now();
    while !attacked.was_refused("before it was attached") {
        assert!(began.elapsed() < SOON, "{:?}", attacked.run.refusals());
    }
    attacked.serves(&honest);
}

/// Well-formed messages with absurd numbers harm the calls of their sender only.
#[test]
fn absurd_numbers_harm_the_calls_of_their_sender_only() {
    let attacked = Attacked::start("numbers");
    let honest = attacked.honest();
    let attacker = Attacker::attach(&attacked.name);
    let call = attacker.call(u64::MAX - 1);
    let trip = TripReport { split_ns: u64::MAX, waited_ns: u64::MAX, waits: u64::MAX };
    let merged = |split| ControlMessage::Merged { call, split, trips: vec![trip; 1000] };
    for split in [0, 1, u64::MAX] {
        attacker.send_to(Some(4), control(merged(split)));
        let id = SplitId { thread: ThreadNumber(u32::MAX), number: split };
        attacker.send_to(Some(4), control(ControlMessage::End { call, split: id, total: split }));
    }
    // Waits that overflow, a batch of the largest size, a thread that does not exist.
    let FlowMessage::Token(mut envelope) = attacker.token(1, 4, vec![]) else { unreachable!() };
    envelope.route.hop_waits = HopWaits { waited_ns: u64::MAX, waits: u64::MAX, hops: u32::MAX };
    envelope.route.oldest = u64::MAX;
    for report_every in [0, 1, u32::MAX] {
        let frame = ConstructKind::Split(SplitFrame {
            split: SplitId { thread: ThreadNumber(u32::MAX), number: u64::MAX },
            merge_at: ThreadNumber(4),
            number: u64::MAX - 1,
            indices: Vec::new(),
            split_ns: u64::MAX,
            report_every,
            batch: u32::MAX,
        });
        for call in 0..50 {
            let route = TokenRoute { call: attacker.call(call), ..envelope.route };
            let payload = Payload::Local(Box::new(5_u64), TokenType::of::<u64>());
            let stack = ConstructStack::from_frames(vec![frame.clone()]);
            let token = Envelope::now(route, stack, payload);
            attacker.send_to(Some(4), FlowMessage::Token(token));
        }
    }
    // A selection that finds no index panics in the thread, and fails the call.
    attacked.serves(&honest);
    drop(attacker);
    attacked.until_attached(1);
    attacked.serves(&honest);
    let snapshot = attacked.run.snapshot();
    assert!(snapshot.threads.iter().all(|thread| thread.splits.is_empty()), "{snapshot}");
}

/// One message of a random attacker.
#[derive(Clone, Debug)]
struct RandomMessage {
    kind: u8,
    process: u32,
    thread: Option<u32>,
    origin: u8,
    call: u64,
    operation: u32,
    step: u32,
    frames: Vec<(u8, u32, u32, u64)>,
}

fn random_message() -> impl Strategy<Value = RandomMessage> {
    let small = |limit: u32| prop_oneof![8 => 0..limit, 1 => any::<u32>()];
    let number = prop_oneof![8 => 0..4_u64, 1 => any::<u64>()];
    let frame = (0..4_u8, small(6), small(8), number.clone());
    (
        0..9_u8,
        prop_oneof![9 => Just(0_u32), 1 => any::<u32>()],
        prop_oneof![9 => small(6).prop_map(Some), 1 => Just(None)],
        0..12_u8,
        number,
        small(4),
        small(9),
        proptest::collection::vec(frame, 0..4),
    )
        .prop_map(|(kind, process, thread, origin, call, operation, step, frames)| {
            RandomMessage { kind, process, thread, origin, call, operation, step, frames }
        })
}

impl RandomMessage {
    fn message(self, attacker: &Attacker) -> FlowMessage {
        let origin = match self.origin {
            0 => ProcessNumber(0),
            1 => ProcessNumber::FIRST_ATTACHED,
            _ => attacker.process,
        };
        let call = CallId { origin, number: self.call };
        let frames: Vec<ConstructKind> = self
            .frames
            .into_iter()
            .map(|(kind, operation, step, number)| match kind {
                0 => {
                    let back = StepPosition { operation, step };
                    ConstructKind::Call { back, from: Some(ThreadNumber(step)) }
                }
                1 => ConstructKind::For { index: number, end: u64::from(step) },
                _ => ConstructKind::Split(SplitFrame {
                    split: SplitId { thread: ThreadNumber(operation), number },
                    merge_at: ThreadNumber(step),
                    number,
                    indices: vec![number],
                    split_ns: number,
                    report_every: operation,
                    batch: step,
                }),
            })
            .collect();
        let split = SplitId { thread: ThreadNumber(self.step), number: self.call };
        let message = match self.kind {
            0..4 => attacker.token_of(call, self.operation, self.step, frames),
            4 => {
                let begin = MergeBegin {
                    call,
                    oldest: 0,
                    split,
                    position: StepPosition { operation: self.operation, step: self.step },
                    outer: frames,
                    hop_waits: HopWaits::default(),
                    is_input: false,
                };
                let payload = Payload::Local(Box::new(1_u64), TokenType::of::<u64>());
                FlowMessage::MergeBegin(begin, payload)
            }
            5 => control(ControlMessage::End { call, split, total: self.call }),
            6 => {
                let trips = vec![TripReport { split_ns: 0, waited_ns: 0, waits: 0 }; 3];
                control(ControlMessage::Merged { call, split: self.call, trips })
            }
            7 => control(ControlMessage::Abort { call }),
            _ => control(ControlMessage::ThreadFree {
                process: origin,
                slot: self.operation,
                thread: ThreadNumber(self.step),
            }),
        };
        let to =
            RouteTo { process: ProcessNumber(self.process), thread: self.thread.map(ThreadNumber) };
        FlowMessage::Routed(to, Box::new(message))
    }
}

/// Random messages, and bytes that are none, between the calls of an honest client.
#[test]
fn random_messages_disturb_no_other_process() {
    let attacked = Attacked::start("random");
    let honest = attacked.honest();
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() };
    let messages = proptest::collection::vec(random_message(), 1..12);
    proptest!(config, |(messages in messages)| {
        let attacker = Attacker::attach(&attacked.name);
        for message in messages {
            attacker.send(message.message(&attacker));
        }
        prop_assert_eq!(honest.0.call(honest.1.sum, 20).unwrap(), 190);
    });
    attacked.until_attached(1);
    attacked.serves(&honest);
    let snapshot = attacked.run.snapshot();
    let is_idle = |thread: &crate::ThreadStatus| thread.splits.is_empty() && thread.queued == 0;
    assert!(snapshot.threads.iter().all(is_idle), "{snapshot}");
}

/// Bytes of any kind in place of messages.
struct RawBytes(Vec<u8>);

impl pario_net::Token for RawBytes {
    fn kind() -> pario_net::TokenKind {
        <GuestMessage as pario_net::Token>::kind()
    }

    fn encode(self, out: &mut pario_net::Outgoing<'_>) -> Result<(), pario_net::EncodeError> {
        out.head().extend_from_slice(&self.0);
        Ok(())
    }

    fn decode(_: pario_net::Incoming<'_>) -> Result<Self, pario_net::DecodeError> {
        Err(pario_net::DecodeError::Other("it is only sent".to_owned()))
    }
}

#[test]
fn garbage_ends_the_connection() {
    let attacked = Attacked::start("garbage");
    let honest = attacked.honest();
    let config = ProptestConfig { cases: 100, failure_persistence: None, ..Default::default() };
    proptest!(config, |(bytes in proptest::collection::vec(any::<u8>(), 0..60), attach: bool)| {
        let attacker = match attach {
            true => Attacker::attach(&attacked.name),
            false => Attacker::connect(&attacked.name),
        };
        let output = attacker._space.output::<RawBytes>(ENTRANCE, SOON).unwrap();
        output.send(RawBytes(bytes)).unwrap();
        output.flush();
        prop_assert_eq!(honest.0.call(honest.1.square, 9).unwrap(), 81);
    });
    attacked.until_attached(1);
    assert!(attacked.was_refused("it sent no message"));
    attacked.serves(&honest);
}
