//! Wild modules: endless loops, huge memories, wrong exports, traps. Each is an error of its call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pario_module::limits::{INSTANCE_MEMORY_LIMIT_BYTES, MODULE_LIMIT_BYTES};
use pario_module::{MemoryBudget, ModuleEngine, ModuleError};
use pario_operation::{Operation, OperationCall};

use crate::clang::{example, module, plain};
use crate::sandbox::{compile, operation, placement, process};

/// Far more than any limit of one invocation.
const TOO_LONG: Duration = Duration::from_secs(60);

fn process_error(body: &str) -> String {
    let source = format!("PARIO_EXPORT(pario_process) {{ {body} }}");
    process(&operation(&module(&source)), b"", b"some bytes").unwrap_err()
}

#[test]
fn an_endless_loop_uses_up_its_fuel() {
    let began = Instant::now();
    let error = process_error("for (volatile int i = 0;; i++) {}");
    assert!(error.starts_with("module test@1: pario_process used up its fuel of 10"), "{error}");
    assert!(began.elapsed() < TOO_LONG);
}

/// Asking for memory is one unit of fuel and far more work than an instruction: here the processor
/// time counts.
#[test]
fn long_instructions_use_up_the_processor_time() {
    let began = Instant::now();
    let error = process_error(
        "for (;;) if (__builtin_wasm_memory_grow(0, 0) == UINT32_MAX) __builtin_trap();",
    );
    assert!(error.contains("pario_process used up its processor time of 1000 ms"), "{error}");
    assert!(began.elapsed() < TOO_LONG);
}

#[test]
fn a_trap_has_the_name_of_the_module_and_a_backtrace() {
    let source = "__attribute__((noinline)) static int divide(volatile int a, volatile int b) {
            if (!b) __builtin_trap();
            return a / b;
        }
        PARIO_EXPORT(pario_process) {
            return divide((int)input->body.length, 0) ? pario_nothing() : 0;
        }";
    let error = process(&operation(&module(source)), b"", b"x").unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with("module test@1: pario_process trapped: "), "{error}");
    assert!(lines[1].starts_with("  0: divide + 0x"), "{error}");
    assert!(lines[2].starts_with("  1: pario_process + 0x"), "{error}");
}

#[test]
fn memory_has_a_limit() {
    let error = process_error(
        "for (;;) {
            uint8_t *more = pario_reserve(&(pario_buffer){0}, 64 << 20);
            if (!more) __builtin_trap();
            for (uint32_t i = 0; i < 64 << 20; i += 65536) more[i] = 1;
        }",
    );
    let limit = INSTANCE_MEMORY_LIMIT_BYTES.to_string();
    assert!(error.contains("trapped") && error.contains(&limit), "{error}");
}

#[test]
fn recursion_ends_at_the_limit_of_the_stack() {
    let source = "__attribute__((noinline)) static int deep(volatile int n) { return n ? deep(n + 1) + n : 0; }
        PARIO_EXPORT(pario_process) { return deep(1) ? pario_nothing() : 0; }";
    let error = process(&operation(&module(source)), b"", b"").unwrap_err();
    assert!(error.contains("pario_process"), "{error}");
    assert!(error.lines().count() < 30, "the backtrace is bounded: {error}");
}

#[test]
fn outputs_outside_of_the_memory_are_errors() {
    for (body, text) in [
        ("return (const pario_output *)0xfffffff0;", "a record outside of its memory"),
        ("return pario_result((void *)0xffff0000, 100);", "bytes outside of its memory"),
        ("return pario_result(input, 0xffffffff);", "bytes outside of its memory"),
        (
            "static pario_output wrong = {.kind = 9}; return &wrong;",
            "a record of kind 9; kinds are 0, 1, 2 and 3",
        ),
    ] {
        let error = process_error(body);
        assert!(error.contains(&format!("pario_process returned {text}")), "{error}");
    }
}

#[test]
fn an_alloc_that_gives_no_memory_fails_the_call() {
    for address in ["0", "0xffffffff", "0x7fffffff"] {
        let source = format!(
            "__attribute__((export_name(\"pario_abi\"))) int abi(void) {{ return 1; }}
            __attribute__((export_name(\"pario_alloc\"))) unsigned alloc(unsigned n) {{ return {address}; }}
            __attribute__((export_name(\"pario_process\"))) int process(int n) {{ return 0; }}"
        );
        let error = process(&operation(&plain(&source)), b"", b"x").unwrap_err();
        assert!(error.contains("pario_alloc has no memory for an input of"), "{error}");
    }
}

#[test]
fn modules_with_wrong_exports_are_refused_with_the_export() {
    const ABI: &str = "__attribute__((export_name(\"pario_abi\"))) int abi(void) { return 1; }";
    const ALLOC: &str =
        "__attribute__((export_name(\"pario_alloc\"))) int alloc(int n) { return n; }";
    let export = |name: &str, signature: &str| {
        format!("__attribute__((export_name(\"{name}\"))) {signature} {{ return 0; }}")
    };
    let process = export("pario_process", "int process(int n)");
    for (source, expected) in [
        (String::new(), "pario_abi () -> i32"),
        (ABI.to_owned(), "pario_alloc (i32) -> i32"),
        (format!("{ABI}{ALLOC}"), "pario_process (i32) -> i32"),
        (format!("{ABI}{ALLOC}{}", export("pario_process", "long long p(int n)")), "pario_process"),
        (
            format!("{ABI}{ALLOC}{}", export("pario_process", "int p(int a, int b)")),
            "pario_process",
        ),
        (
            format!("{ABI}{ALLOC}{process}{}", export("pario_finish", "int f(int n)")),
            "pario_merge (i32) -> i32, because it exports pario_finish",
        ),
        (
            format!("{ABI}{ALLOC}{process}{}", export("pario_neighbours", "int f(int n)")),
            "pario_cut (i32) -> i32, because it exports pario_neighbours",
        ),
    ] {
        let error = compile(&plain(&source)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("the module must export {expected}")), "{error}");
    }
    let next = format!("{}{ALLOC}{process}", ABI.replace("return 1", "return 2"));
    assert_eq!(compile(&plain(&next)).unwrap_err(), ModuleError::Version { found: 2 });
}

#[test]
fn modules_that_reach_out_are_refused() {
    let source = "__attribute__((import_module(\"wasi\"), import_name(\"clock\"))) int clock(void);
        PARIO_EXPORT(pario_process) { return clock() ? pario_nothing() : 0; }";
    let error = compile(&module(source)).unwrap_err();
    assert_eq!(error, ModuleError::Import { import: "wasi.clock".to_owned() });
}

#[test]
fn bytes_that_are_no_module_are_refused() {
    let whole = example("threshold");
    for wrong in [&b""[..], b"\0asm", b"\0asm\x01\0\0\0", b"#!/bin/sh", &whole[..whole.len() / 2]] {
        assert!(compile(wrong).is_err());
    }
    let large = vec![0; MODULE_LIMIT_BYTES + 1];
    assert_eq!(compile(&large).unwrap_err(), ModuleError::TooLarge { bytes: large.len() });
}

#[test]
fn a_module_that_cannot_start_is_refused() {
    let huge = "static char room[900 << 20]; PARIO_EXPORT(pario_process) {
        room[input->subfile] = 1; return pario_result(room, 1); }";
    let error = compile(&module(huge)).unwrap_err().to_string();
    assert!(error.contains("cannot be started") && error.contains("memory"), "{error}");
    let endless = plain(
        "__attribute__((export_name(\"pario_abi\"))) int abi(void) { for (volatile int i = 1;; i++) {} }
        __attribute__((export_name(\"pario_alloc\"))) int alloc(int n) { return n; }
        __attribute__((export_name(\"pario_process\"))) int process(int n) { return 0; }",
    );
    let error = compile(&endless).unwrap_err().to_string();
    assert!(error.contains("pario_abi used up its fuel"), "{error}");
}

/// A budget of some bytes.
struct Bytes(AtomicU64);

impl MemoryBudget for Bytes {
    fn take(&self, bytes: u64) -> Result<(), String> {
        let less = |left: u64| left.checked_sub(bytes);
        let taken = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        taken.map(drop).map_err(|left| format!("only {left} bytes are left"))
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::SeqCst);
    }
}

#[test]
fn instances_take_their_memory_from_the_budget_and_give_it_back() {
    const ALL: u64 = 1 << 20;
    let engine = ModuleEngine::new().unwrap();
    let budget = Arc::new(Bytes(AtomicU64::new(ALL)));
    let threshold = engine.compile(&example("threshold")).unwrap();
    let operation = threshold.operation("threshold@1", budget.clone());
    let small = process(&operation, b"level=1", &[0; 1000]);
    assert!(small.is_ok(), "{small:?}");
    assert_eq!(budget.0.load(Ordering::SeqCst), ALL);
    let error = process(&operation, b"level=1", &[0; 1 << 20]).unwrap_err();
    assert!(error.contains("bytes are left"), "{error}");
    assert_eq!(budget.0.load(Ordering::SeqCst), ALL, "everything is given back");
    let held: Vec<_> = (0..100)
        .map_while(|_| operation.prepare(&OperationCall::new(b"level=1", &[true])).ok())
        .collect();
    assert!((1..16).contains(&held.len()), "{} instances", held.len());
    drop(held);
    assert_eq!(budget.0.load(Ordering::SeqCst), ALL);
}

#[test]
fn a_list_of_neighbours_that_makes_no_sense_is_an_error() {
    let wild = operation(&module(
        "PARIO_EXPORT(pario_process) { return pario_nothing(); }
        PARIO_EXPORT(pario_cut) { __builtin_trap(); }
        PARIO_EXPORT(pario_neighbours) { return pario_result(input, 7); }",
    ));
    let task = wild.prepare(&OperationCall::new(b"", &[true])).unwrap();
    let error = task.neighbours(placement(0, 0)).unwrap_err();
    assert!(error.contains("ends in the middle of an entry"), "{error}");
    assert!(wild.cut(b"", None).unwrap_err().contains("pario_cut trapped"));
    assert!(wild.cut(b"", None).is_err(), "again, in a new instance");
}
