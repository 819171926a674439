//! `pario operation test`: runs a module in this command.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use clap::Args;
use pario::operation::{ExtentBytes, ExtentInput, ExtentOutput, Operation, OperationCall};
use pario::{ExtentIndex, ExtentPlacement, SubfileIndex};
use pario_module::{ModuleEngine, Unlimited};
use serde_json::{Value, json};

use crate::amounts::size;
use crate::arguments::GlobalOptions;
use crate::exit::UsageError;
use crate::{reach, terminal};

/// Examples for `--help`.
pub const EXAMPLES: &str = "pario operation test threshold.wasm body.raw --parameter level=90\n  \
                            pario operation test grep.wasm log.txt --parameter pattern=error --output -\n  \
                            pario operation test histogram a.raw b.raw --output counts.raw";

/// Arguments of the command.
#[derive(Args, Debug)]
pub struct Options {
    /// A parameter of the operation; repeat the option for more
    #[arg(short, long = "parameter", value_name = "NAME=VALUE")]
    parameters: Vec<String>,

    /// A file on this machine for the results, one after the other; a dash is stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The module: a file on this machine that ends with .wasm, or the name of one in the cluster
    module: String,

    /// Files on this machine, each the body of an extent
    #[arg(value_name = "BODY")]
    bodies: Vec<PathBuf>,
}

/// What the module made of one extent, or of all.
struct TestResult {
    input: Option<String>,
    output: ExtentOutput,
    time: Duration,
}

/// Runs the command.
pub fn run(global: &GlobalOptions, options: &Options) -> anyhow::Result<()> {
    if let Some(wrong) = options.parameters.iter().find(|text| !text.contains('=')) {
        let text = format!("{wrong:?} is no parameter: write NAME=VALUE, such as level=90");
        return Err(UsageError(text).into());
    }
    let bytes = read_module(global, &options.module)?;
    let refused = |error: pario_module::ModuleError| {
        anyhow::Error::from(UsageError(format!("{}: {error}", options.module)))
    };
    let module = ModuleEngine::new().and_then(|engine| engine.compile(&bytes)).map_err(refused)?;
    let operation = module.operation(&options.module, Arc::new(Unlimited));
    let results = process(&operation, options)?;
    if let Some(file) = &options.output {
        write_results(file, &results)?;
    }
    if global.json {
        let results: Vec<Value> = results.iter().map(TestResult::as_json).collect();
        return terminal::print_json(&json!({ "module": options.module, "results": results }));
    }
    if options.output.as_deref() != Some(Path::new("-")) {
        let mut out = terminal::output();
        for result in &results {
            writeln!(out, "{}", result.as_text())?;
        }
        out.flush()?;
    }
    Ok(())
}

fn read_module(global: &GlobalOptions, module: &str) -> anyhow::Result<Vec<u8>> {
    if module.ends_with(".wasm") {
        return std::fs::read(module).with_context(|| module.to_owned());
    }
    Ok(reach::cluster(global)?.module_bytes(module)?.to_vec())
}

fn process(operation: &impl Operation, options: &Options) -> anyhow::Result<Vec<TestResult>> {
    let parameters = options.parameters.join("\n");
    let failed = |why: String| anyhow!("{why}");
    let task = operation.prepare(&OperationCall::new(parameters.as_bytes(), &[true]));
    let task = task.map_err(failed)?;
    let mut scratch = task.scratch();
    let mut results = Vec::new();
    for (number, file) in (0..).zip(&options.bodies) {
        let input = file.display().to_string();
        let body = std::fs::read(file).with_context(|| input.clone())?;
        let placement = ExtentPlacement { subfile: SubfileIndex(0), extent: ExtentIndex(number) };
        let wanted = task.neighbours(placement).map_err(failed)?;
        if !wanted.is_empty() {
            let text = "the module needs neighbours, which this command does not have: add the \
                        module to a cluster, and call it on a file";
            return Err(anyhow!("{}: {text}", options.module));
        }
        let extent = Some(ExtentBytes { header: b"", body: &body });
        let began = Instant::now();
        let processed =
            task.process(&ExtentInput { placement, extent, neighbours: &[] }, &mut scratch);
        let output = processed.map_err(|why| anyhow!("{input}: {why}"))?;
        results.push(TestResult { input: Some(input), output, time: began.elapsed() });
    }
    let began = Instant::now();
    if let Some(bytes) = task.finish(vec![scratch]).map_err(failed)? {
        let output = ExtentOutput::Result(bytes);
        results.push(TestResult { input: None, output, time: began.elapsed() });
    }
    Ok(results)
}

fn write_results(file: &Path, results: &[TestResult]) -> anyhow::Result<()> {
    let mut out: Box<dyn Write> = match file == Path::new("-") {
        true => Box::new(io::stdout().lock()),
        false => Box::new(File::create(file).with_context(|| file.display().to_string())?),
    };
    for result in results {
        out.write_all(result.bytes()).with_context(|| file.display().to_string())?;
    }
    out.flush()?;
    Ok(())
}

impl TestResult {
    fn bytes(&self) -> &[u8] {
        match &self.output {
            ExtentOutput::Nothing => &[],
            ExtentOutput::Result(bytes) => bytes,
            ExtentOutput::Extent { body, .. } => body,
        }
    }

    fn kind(&self) -> &'static str {
        match &self.output {
            ExtentOutput::Nothing => "nothing",
            ExtentOutput::Result(_) => "result",
            ExtentOutput::Extent { .. } => "extent",
        }
    }

    fn as_text(&self) -> String {
        let input = self.input.as_deref().unwrap_or("all extents together");
        let amount = match &self.output {
            ExtentOutput::Nothing => String::new(),
            _ => format!(" of {}", size(self.bytes().len() as u64)),
        };
        format!("{input}   {}{amount} after {:.1?}", self.kind(), self.time)
    }

    fn as_json(&self) -> Value {
        json!({
            "input": self.input,
            "kind": self.kind(),
            "bytes": self.bytes().len(),
            "seconds": self.time.as_secs_f64(),
        })
    }
}
