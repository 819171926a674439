//! The reader of placement files.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{PlacementError, PlacementProblem, nearest};
use super::file::{Placement, PoolSize, ProcessSpec, ThreadEntry};
use super::pattern::ThreadPattern;

/// Reads the text of a placement file and locates errors in it.
pub(super) struct PlacementReader<'t> {
    text: &'t str,
    source: &'t str,
}

type PlacementKey<'t> = Spanned<Cow<'t, str>>;
type PlacementValue<'t> = Spanned<DeValue<'t>>;

impl<'t> PlacementReader<'t> {
    pub(super) fn new(text: &'t str, source: &'t str) -> Self {
        PlacementReader { text, source }
    }

    pub(super) fn placement(&self) -> Result<Placement, PlacementError> {
        let root = DeTable::parse(self.text).map_err(|error| self.syntax(&error))?.into_inner();
        let mut placement = Placement {
            source: self.source.to_owned(),
            processes: Vec::new(),
            directory: None,
            key_file: None,
            pools: Vec::new(),
            threads: Vec::new(),
            single: false,
        };
        let mut threads = None;
        let mut processes = None;
        for (key, value) in in_order(&root) {
            match key.get_ref().as_ref() {
                "directory" => {
                    placement.directory = Some(self.string("directory", value)?.to_owned());
                }
                "key_file" => placement.key_file = Some(self.string("key_file", value)?.into()),
                "processes" => processes = Some(self.table("[processes]", value)?),
                "pools" => placement.pools = self.pools(self.table("[pools]", value)?)?,
                "threads" => threads = Some(self.table("[threads]", value)?),
                _ => {
                    let known = ["directory", "key_file", "processes", "pools", "threads"];
                    return Err(self.unknown_key("a placement file", key, &known));
                }
            }
        }
        placement.processes = self.processes(processes)?;
        if let Some(table) = threads {
            placement.threads = self.threads(table, &placement.processes)?;
        }
        Ok(placement)
    }

    fn processes(&self, table: Option<&DeTable<'t>>) -> Result<Vec<ProcessSpec>, PlacementError> {
        let entries = table.map(in_order).unwrap_or_default();
        let mut processes = Vec::new();
        let mut first: Option<(&str, usize)> = None;
        for (key, value) in entries {
            let name = key.get_ref().as_ref();
            let user = match value.get_ref() {
                DeValue::String(text) if text == "user" => true,
                DeValue::Table(_) => false,
                _ => {
                    let what = format!("process \"{name}\"");
                    return Err(self.wrong_type(what, "\"user\" or a table such as {}", value));
                }
            };
            match first {
                Some((first, first_line)) if user => {
                    let (process, first) = (name.to_owned(), first.to_owned());
                    return Err(self.at(
                        key.span(),
                        PlacementProblem::SecondUser { process, first, first_line },
                    ));
                }
                None if !user => {
                    let problem = PlacementProblem::FirstNotUser { process: name.to_owned() };
                    return Err(self.at(key.span(), problem));
                }
                _ => {}
            }
            first.get_or_insert((name, self.line(key.span())));
            processes.push(self.process(name, value)?);
        }
        if processes.is_empty() {
            return Err(PlacementError::at(self.source, None, PlacementProblem::NoProcesses));
        }
        Ok(processes)
    }

    fn process(
        &self,
        name: &str,
        value: &PlacementValue<'t>,
    ) -> Result<ProcessSpec, PlacementError> {
        let mut process =
            ProcessSpec { name: name.to_owned(), host: None, executable: None, arguments: None };
        let DeValue::Table(table) = value.get_ref() else { return Ok(process) };
        for (key, value) in in_order(table) {
            match key.get_ref().as_ref() {
                "host" => {
                    let host = self.string("host", value)?.to_owned();
                    // ssh would read a leading hyphen as an option.
                    let strange = |c: char| c.is_whitespace() || c.is_control();
                    if host.is_empty() || host.starts_with('-') || host.contains(strange) {
                        let process = name.to_owned();
                        return Err(
                            self.at(value.span(), PlacementProblem::BadHost { process, host })
                        );
                    }
                    process.host = Some(host);
                }
                "executable" => {
                    process.executable = Some(self.string("executable", value)?.into());
                }
                "arguments" => {
                    let DeValue::Array(array) = value.get_ref() else {
                        let what = "arguments".to_owned();
                        return Err(self.wrong_type(what, "a list of strings", value));
                    };
                    let arguments = array
                        .iter()
                        .map(|item| self.string("an argument", item).map(str::to_owned));
                    process.arguments = Some(arguments.collect::<Result<_, _>>()?);
                }
                _ => {
                    let known = ["host", "executable", "arguments"];
                    return Err(self.unknown_key(&format!("process \"{name}\""), key, &known));
                }
            }
        }
        Ok(process)
    }

    fn pools(&self, table: &DeTable<'t>) -> Result<Vec<PoolSize>, PlacementError> {
        let mut pools = Vec::new();
        self.leaves(table, "", &mut |name, key, value| {
            let size = value
                .get_ref()
                .as_integer()
                .and_then(|number| usize::from_str_radix(number.as_str(), number.radix()).ok())
                .filter(|size| *size > 0);
            let Some(size) = size else {
                let what = format!("the size of pool \"{name}\"");
                return Err(self.wrong_type(what, "a number from 1", value));
            };
            pools.push(PoolSize { name, size, line: self.line(key.span()) });
            Ok(())
        })?;
        Ok(pools)
    }

    fn threads(
        &self,
        table: &DeTable<'t>,
        processes: &[ProcessSpec],
    ) -> Result<Vec<ThreadEntry>, PlacementError> {
        let mut entries = Vec::new();
        self.leaves(table, "", &mut |written, key, value| {
            let failed = |problem| self.at(key.span(), problem);
            let pattern = ThreadPattern::parse(&written).map_err(failed)?;
            let DeValue::String(name) = value.get_ref() else {
                let what = format!("thread \"{written}\"");
                return Err(self.wrong_type(what, "the name of a process", value));
            };
            let Some(process) = processes.iter().position(|process| process.name == *name) else {
                let names = processes.iter().map(|process| process.name.as_str());
                let suggestion = nearest(name, names);
                let process = name.to_string();
                let thread = written;
                return Err(failed(PlacementProblem::UnknownProcess {
                    thread,
                    process,
                    suggestion,
                }));
            };
            entries.push(ThreadEntry { written, pattern, process, line: self.line(key.span()) });
            Ok(())
        })?;
        entries.sort_by_key(|entry| entry.line);
        Ok(entries)
    }

    /// Visits the values of a table and of the tables in it, with dots in the names:
    /// `ProcessB.ThreadC = "D"` is the same as `"ProcessB.ThreadC" = "D"`.
    fn leaves(
        &self,
        table: &DeTable<'t>,
        prefix: &str,
        visit: &mut dyn FnMut(
            String,
            &PlacementKey<'t>,
            &PlacementValue<'t>,
        ) -> Result<(), PlacementError>,
    ) -> Result<(), PlacementError> {
        for (key, value) in in_order(table) {
            let name = format!("{prefix}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) => self.leaves(inner, &format!("{name}."), visit)?,
                _ => visit(name, key, value)?,
            }
        }
        Ok(())
    }

    fn string<'v>(
        &self,
        what: &str,
        value: &'v PlacementValue<'t>,
    ) -> Result<&'v str, PlacementError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.wrong_type(what.to_owned(), "a string", value)),
        }
    }

    fn table<'v>(
        &self,
        what: &str,
        value: &'v PlacementValue<'t>,
    ) -> Result<&'v DeTable<'t>, PlacementError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.wrong_type(what.to_owned(), "a table", value)),
        }
    }

    fn wrong_type(
        &self,
        what: String,
        expected: &'static str,
        value: &PlacementValue<'t>,
    ) -> PlacementError {
        let found = self.text.get(value.span()).unwrap_or_default();
        let found = match found.lines().next() {
            Some(line) if !line.is_empty() && line.len() == found.len() && line.len() <= 40 => {
                line.to_owned()
            }
            _ => format!("a value of type {}", value.get_ref().type_str()),
        };
        self.at(value.span(), PlacementProblem::Type { what, expected, found })
    }

    fn unknown_key(&self, within: &str, key: &PlacementKey<'t>, known: &[&str]) -> PlacementError {
        let name = key.get_ref().to_string();
        let suggestion = nearest(&name, known.iter().copied());
        let problem =
            PlacementProblem::UnknownKey { within: within.to_owned(), key: name, suggestion };
        self.at(key.span(), problem)
    }

    fn syntax(&self, error: &toml::de::Error) -> PlacementError {
        let span = error.span().unwrap_or(0..0);
        if let Some(duplicate) = self.duplicate(error, &span) {
            return self.at(span, duplicate);
        }
        let problem = PlacementProblem::Syntax(error.message().trim().replace('\n', "; "));
        let column = Some(self.column(&span));
        PlacementError { column, ..self.at(span, problem) }
    }

    /// Returns the problem of a duplicate key, with the line of the first.
    fn duplicate(&self, error: &toml::de::Error, span: &Range<usize>) -> Option<PlacementProblem> {
        if !error.message().starts_with("duplicate key") {
            return None;
        }
        let key = self.text.get(span.clone())?.trim_matches(['"', '\'']);
        let (root, _) = DeTable::parse_recoverable(self.text);
        let first = first_key(root.get_ref(), key, span.start)?;
        Some(PlacementProblem::Duplicate { key: key.to_owned(), first: self.line(first) })
    }

    fn at(&self, span: Range<usize>, problem: PlacementProblem) -> PlacementError {
        PlacementError::at(self.source, Some(self.line(span)), problem)
    }

    fn line(&self, span: Range<usize>) -> usize {
        self.before(&span).matches('\n').count() + 1
    }

    fn column(&self, span: &Range<usize>) -> usize {
        let before = self.before(span);
        before[before.rfind('\n').map_or(0, |newline| newline + 1)..].chars().count() + 1
    }

    fn before(&self, span: &Range<usize>) -> &'t str {
        self.text.get(..span.start).unwrap_or(self.text)
    }
}

/// Returns the entries in the order of the text; a TOML table is unordered.
fn in_order<'v, 't>(table: &'v DeTable<'t>) -> Vec<(&'v PlacementKey<'t>, &'v PlacementValue<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Returns the span of the last key of this name before a position.
fn first_key(table: &DeTable<'_>, name: &str, before: usize) -> Option<Range<usize>> {
    let mut found: Option<Range<usize>> = None;
    for (key, value) in table.iter() {
        let here = (key.get_ref() == name && key.span().start < before).then(|| key.span());
        let inner = match value.get_ref() {
            DeValue::Table(inner) => first_key(inner, name, before),
            _ => None,
        };
        for span in here.into_iter().chain(inner) {
            if found.as_ref().is_none_or(|found| found.start < span.start) {
                found = Some(span);
            }
        }
    }
    found
}
