//! Sends messages as a process that attaches to a resident dataflow program: any bytes to its
//! entrance. Afterwards the program serves its own calls and those of an honest process.
#![no_main]

use std::sync::OnceLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use pario_flow::{AttachOptions, OperationRef, Program, ResidentAddress, RunningProgram};
use pario_net::{Address, DecodeError, EncodeError, Incoming, Outgoing, Space, Token, TokenKind};

const SOON: Duration = Duration::from_secs(10);

/// The resident program, and an honest process.
struct Attacked {
    resident: RunningProgram,
    honest: RunningProgram,
    double: OperationRef<u64, u64>,
    address: Address,
}

fn program(name: &str) -> (Program, OperationRef<u64, u64>) {
    let mut program = Program::new(name);
    let caller = program.caller_thread("Caller", || ());
    let worker = program.pool("Worker", 2, |_| ());
    let double = program.operation("double", |b| {
        b.on(caller)
            .split_indexed(|n: &u64| 0..*n, |_, _| Some(2))
            .on(worker.any())
            .run(|_, n: u64| n)
            .merge(caller, |_| 0, |sum: &mut u64, n| *sum += n)
    });
    (program, double)
}

fn attacked() -> &'static Attacked {
    static ATTACKED: OnceLock<Attacked> = OnceLock::new();
    ATTACKED.get_or_init(|| {
        let name = format!("fuzzed program of {}", std::process::id());
        let (mut resident, double) = program(&name);
        resident.allow_attach(AttachOptions::this_user());
        let resident = resident.launch(None).expect("it starts");
        let honest = program(&name).0.attach(&ResidentAddress::ThisMachine).expect("it attaches");
        let path = resident.entrance_path().expect("it is resident");
        Attacked { resident, honest, double, address: Address::unix(path) }
    })
}

/// Any bytes in place of a message.
struct AnyBytes(Vec<u8>);

impl Token for AnyBytes {
    fn kind() -> TokenKind {
        TokenKind::named("pario_flow::runtime::attached::GuestMessage")
    }

    fn encode(self, out: &mut Outgoing<'_>) -> Result<(), EncodeError> {
        out.head().extend_from_slice(&self.0);
        Ok(())
    }

    fn decode(_: Incoming<'_>) -> Result<Self, DecodeError> {
        Err(DecodeError::Other("it is only sent".to_owned()))
    }
}

fuzz_target!(|messages: Vec<Vec<u8>>| {
    let attacked = attacked();
    let space = Space::builder("attacker").listen_nowhere().join(&attacked.address).build();
    // The attacker before may not have left yet.
    if let Ok(space) = space
        && let Ok(entrance) = space.output::<AnyBytes>("entrance", SOON)
    {
        for message in messages {
            let _ = entrance.send(AnyBytes(message));
        }
        entrance.flush();
    }
    for run in [&attacked.resident, &attacked.honest] {
        assert_eq!(run.call(attacked.double, 21).expect("it serves"), 42);
    }
});
