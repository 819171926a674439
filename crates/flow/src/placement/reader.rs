//! The reader of placement files.

use super::error::{PlacementError, PlacementProblem};
use super::file::{Placement, PoolSize, ProcessSpec, ThreadEntry};
use super::pattern::ThreadPattern;
use crate::document::{
    Document, DocumentError, DocumentKey, DocumentTable, DocumentValue, nearest,
};

const PLACEMENT_KEYS: [&str; 5] = ["directory", "key_file", "processes", "pools", "threads"];
const PROCESS_KEYS: [&str; 3] = ["host", "executable", "arguments"];

/// Reads the text of a placement file; errors call the file `source`.
pub(super) fn read(text: &str, source: &str) -> Result<Placement, PlacementError> {
    read_placement(text, source)
        .map_err(|error| PlacementError { file: source.to_owned(), ..error })
}

/// The error at a line of the file whose name [`read`] adds.
fn at(line: usize, problem: PlacementProblem) -> PlacementError {
    PlacementError::at("", Some(line), problem)
}

impl From<DocumentError> for PlacementError {
    fn from(error: DocumentError) -> Self {
        PlacementError { column: error.column, ..at(error.line, error.problem.into()) }
    }
}

fn read_placement(text: &str, source: &str) -> Result<Placement, PlacementError> {
    let document = Document::parse(text)
        .map_err(|errors| errors.into_iter().next().expect("a document that fails has an error"))?;
    let mut placement = Placement {
        source: source.to_owned(),
        processes: Vec::new(),
        directory: None,
        key_file: None,
        pools: Vec::new(),
        threads: Vec::new(),
        single: false,
    };
    let (mut processes, mut threads) = (None, None);
    for (key, value) in document.root().entries() {
        let table = |what| value.require(value.as_table(), what, "a table");
        match key.name() {
            "directory" => placement.directory = Some(value.string("directory")?.to_owned()),
            "key_file" => placement.key_file = Some(value.string("key_file")?.into()),
            "processes" => processes = Some(table("[processes]")?),
            "pools" => placement.pools = read_pools(table("[pools]")?)?,
            "threads" => threads = Some(table("[threads]")?),
            _ => return Err(key.unknown("a placement file", &PLACEMENT_KEYS).into()),
        }
    }
    placement.processes = read_processes(processes)?;
    if let Some(table) = threads {
        placement.threads = read_threads(table, &placement.processes)?;
    }
    Ok(placement)
}

fn read_processes(table: Option<DocumentTable<'_>>) -> Result<Vec<ProcessSpec>, PlacementError> {
    let mut processes = Vec::new();
    let mut first: Option<DocumentKey<'_>> = None;
    for (key, value) in table.map(|table| table.entries()).unwrap_or_default() {
        let name = key.name();
        let is_user = value.as_str() == Some("user");
        if !is_user && value.as_table().is_none() {
            let what = format!("process \"{name}\"");
            return Err(value.wrong_type(&what, "\"user\" or a table such as {}").into());
        }
        match first {
            Some(first) if is_user => {
                let (process, first_line) = (name.to_owned(), first.line());
                let first = first.name().to_owned();
                let problem = PlacementProblem::SecondUser { process, first, first_line };
                return Err(at(key.line(), problem));
            }
            None if !is_user => {
                let problem = PlacementProblem::FirstNotUser { process: name.to_owned() };
                return Err(at(key.line(), problem));
            }
            _ => {}
        }
        first.get_or_insert(key);
        processes.push(read_process(name, value)?);
    }
    if processes.is_empty() {
        return Err(PlacementError::at("", None, PlacementProblem::NoProcesses));
    }
    Ok(processes)
}

fn read_process(name: &str, value: DocumentValue<'_>) -> Result<ProcessSpec, PlacementError> {
    let mut process =
        ProcessSpec { name: name.to_owned(), host: None, executable: None, arguments: None };
    let Some(table) = value.as_table() else { return Ok(process) };
    for (key, value) in table.entries() {
        match key.name() {
            "host" => {
                let host = value.string("host")?.to_owned();
                // ssh would read a leading hyphen as an option.
                let strange = |c: char| c.is_whitespace() || c.is_control();
                if host.is_empty() || host.starts_with('-') || host.contains(strange) {
                    let process = name.to_owned();
                    return Err(at(value.line(), PlacementProblem::BadHost { process, host }));
                }
                process.host = Some(host);
            }
            "executable" => process.executable = Some(value.string("executable")?.into()),
            "arguments" => {
                let items = value.require(value.as_array(), "arguments", "a list of strings")?;
                let arguments = items.map(|item| item.string("an argument").map(str::to_owned));
                process.arguments = Some(arguments.collect::<Result<_, _>>()?);
            }
            _ => return Err(key.unknown(format!("process \"{name}\""), &PROCESS_KEYS).into()),
        }
    }
    Ok(process)
}

fn read_pools(table: DocumentTable<'_>) -> Result<Vec<PoolSize>, PlacementError> {
    let mut pools = Vec::new();
    for (name, key, value) in leaves(table, "") {
        let size = value.as_integer().and_then(|size| usize::try_from(size).ok());
        let what = format!("the size of pool \"{name}\"");
        let size = value.require(size.filter(|size| *size > 0), &what, "a number from 1")?;
        pools.push(PoolSize { name, size, line: key.line() });
    }
    Ok(pools)
}

fn read_threads(
    table: DocumentTable<'_>,
    processes: &[ProcessSpec],
) -> Result<Vec<ThreadEntry>, PlacementError> {
    let mut entries = Vec::new();
    for (written, key, value) in leaves(table, "") {
        let line = key.line();
        let pattern = ThreadPattern::parse(&written).map_err(|problem| at(line, problem))?;
        let what = format!("thread \"{written}\"");
        let name = value.require(value.as_str(), &what, "the name of a process")?;
        let Some(process) = processes.iter().position(|process| process.name == name) else {
            let suggestion = nearest(name, processes.iter().map(|process| process.name.as_str()));
            let (thread, process) = (written, name.to_owned());
            let problem = PlacementProblem::UnknownProcess { thread, process, suggestion };
            return Err(at(line, problem));
        };
        entries.push(ThreadEntry { written, pattern, process, line });
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

/// Returns the values of a table and of the tables in it, with dots in the names:
/// `ProcessB.ThreadC = "D"` is the same as `"ProcessB.ThreadC" = "D"`.
fn leaves<'d>(
    table: DocumentTable<'d>,
    prefix: &str,
) -> Vec<(String, DocumentKey<'d>, DocumentValue<'d>)> {
    let leaf = |(key, value): (DocumentKey<'d>, DocumentValue<'d>)| {
        let name = format!("{prefix}{}", key.name());
        match value.as_table() {
            Some(inner) => leaves(inner, &format!("{name}.")),
            None => vec![(name, key, value)],
        }
    };
    table.entries().into_iter().flat_map(leaf).collect()
}
