//! The text of a configuration: from TOML to what was written, with the line of everything.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use bytesize::ByteSize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ShortCut;
use super::error::{Mistake, Problem, nearest};

/// Something that was written, and in which line.
pub(super) type Lined<T> = (T, usize);

/// A cluster as it was written.
#[derive(Debug, Default)]
pub(super) struct ClusterText {
    pub name: Option<String>,
    pub key_file: Option<Lined<PathBuf>>,
    /// Whether there is such a setting, though it may be wrong.
    pub has_key: bool,
    pub interface: Option<Lined<String>>,
    pub grant_epoch: Option<Duration>,
    pub nodes: Vec<NodeText>,
}

/// A node as it was written.
#[derive(Debug, Default)]
pub(super) struct NodeText {
    pub name: String,
    pub line: usize,
    pub listen: Option<Lined<SocketAddr>>,
    pub socket: Option<Lined<PathBuf>>,
    pub data: Option<Lined<PathBuf>>,
    /// Nothing if there is no such setting, or none that can be understood.
    pub disks: Option<Vec<DiskText>>,
    pub storage_threads: Option<Lined<usize>>,
    pub compute_threads: Option<usize>,
    pub cache_bytes: Option<u64>,
    pub all_users: Option<bool>,
    pub short_cut: Option<ShortCut>,
    /// Nothing inside if there is to be no warning.
    pub wait_warning: Option<Option<Duration>>,
    pub audit: Option<bool>,
    /// Settings that are there, though wrong: nobody needs to be told that they are missing.
    pub wrong: Vec<String>,
}

/// A disk as it was written.
#[derive(Debug)]
pub(super) struct DiskText {
    pub path: PathBuf,
    pub is_read_only: bool,
    pub latency: Option<Duration>,
    pub bytes_per_second: Option<NonZeroU64>,
    pub line: usize,
}

type Key<'t> = Spanned<Cow<'t, str>>;
type Value<'t> = Spanned<DeValue<'t>>;

const CLUSTER_KEYS: [&str; 5] = ["name", "key_file", "interface", "grant_epoch_seconds", "nodes"];
const NODE_KEYS: [&str; 11] = [
    "listen",
    "socket",
    "data",
    "disks",
    "storage_threads",
    "compute_threads",
    "cache",
    "all_users",
    "short_cut",
    "wait_warning_seconds",
    "audit",
];
const DISK_KEYS: [&str; 4] = ["path", "read_only", "latency_ms", "mb_per_s"];
const THREADS_LIMIT: usize = 1024;
const NAME_LIMIT: usize = 64;
const SECONDS_LIMIT: f64 = 86_400.0;
const GRANT_EPOCH_LIMIT_S: f64 = 3_600.0;
const LATENCY_LIMIT_MS: f64 = 10_000.0;
const MB_PER_S_LEAST: f64 = 0.001;
const MB_PER_S_LIMIT: f64 = 100_000.0;

/// Reads one text, and notes every mistake on the way.
pub(super) struct Reader<'t> {
    text: &'t str,
    mistakes: Vec<Mistake>,
}

impl<'t> Reader<'t> {
    /// What was written, and what is wrong with it. Where it is not TOML there is nothing else to
    /// be said about it.
    pub(super) fn read(text: &'t str) -> (Option<ClusterText>, Vec<Mistake>) {
        let mut reader = Reader { text, mistakes: Vec::new() };
        let (root, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            for error in &errors {
                reader.syntax(error, root.get_ref());
            }
            return (None, reader.mistakes);
        }
        let cluster = reader.cluster(root.get_ref());
        (Some(cluster), reader.mistakes)
    }

    fn cluster(&mut self, root: &DeTable<'t>) -> ClusterText {
        let mut cluster = ClusterText::default();
        for (key, value) in in_order(root) {
            match key.get_ref().as_ref() {
                "name" => {
                    if let Some(name) = self.string("name", value) {
                        self.check_name("cluster", &name, value.span());
                        cluster.name = Some(name);
                    }
                }
                "key_file" => {
                    cluster.has_key = true;
                    cluster.key_file = self.path("key_file", value);
                }
                "interface" => {
                    let name = self.string("interface", value);
                    cluster.interface = name.map(|name| (name, self.line(&value.span())));
                }
                "grant_epoch_seconds" => {
                    cluster.grant_epoch = self.grant_epoch("grant_epoch_seconds", value);
                }
                "nodes" => match value.get_ref() {
                    DeValue::Table(nodes) => {
                        for (key, value) in in_order(nodes) {
                            cluster.nodes.push(self.node(key, value));
                        }
                    }
                    _ => {
                        self.wrong_type::<()>("nodes".to_owned(), "a table for each node", value);
                    }
                },
                _ => self.unknown_key("a cluster", key, &CLUSTER_KEYS),
            }
        }
        cluster
    }

    fn node(&mut self, key: &Key<'t>, value: &Value<'t>) -> NodeText {
        let name = key.get_ref().to_string();
        self.check_name("node", &name, key.span());
        let mut node = NodeText { line: self.line(&key.span()), ..NodeText::default() };
        let what = |setting: &str| format!("node \"{name}\": {setting}");
        let DeValue::Table(table) = value.get_ref() else {
            self.wrong_type::<()>(format!("node \"{name}\""), "a table", value);
            node.wrong = NODE_KEYS.map(str::to_owned).to_vec();
            node.name = name;
            return node;
        };
        for (key, value) in in_order(table) {
            let before = self.mistakes.len();
            let setting = key.get_ref().as_ref();
            match setting {
                "listen" => node.listen = self.address(what("listen"), value),
                "socket" => node.socket = self.path(&what("socket"), value),
                "data" => node.data = self.path(&what("data"), value),
                "disks" => node.disks = self.disks(&name, value),
                "storage_threads" => {
                    let threads = self.threads(what(setting), value);
                    node.storage_threads =
                        threads.map(|threads| (threads, self.line(&value.span())));
                }
                "compute_threads" => node.compute_threads = self.threads(what(setting), value),
                "cache" => node.cache_bytes = self.size(what("cache"), value),
                "all_users" => node.all_users = self.flag(what(setting), value),
                "short_cut" => node.short_cut = self.short_cut(what(setting), value),
                "wait_warning_seconds" => {
                    node.wait_warning = self.seconds_or_never(what(setting), value);
                }
                "audit" => node.audit = self.flag(what(setting), value),
                _ => self.unknown_key(&format!("node \"{name}\""), key, &NODE_KEYS),
            }
            if self.mistakes.len() > before {
                node.wrong.push(setting.to_owned());
            }
        }
        node.name = name;
        node
    }

    fn disks(&mut self, node: &str, value: &Value<'t>) -> Option<Vec<DiskText>> {
        let DeValue::Array(array) = value.get_ref() else {
            self.wrong_type::<()>(
                format!("node \"{node}\": disks"),
                "a list of directories",
                value,
            );
            return None;
        };
        Some(array.iter().filter_map(|disk| self.disk(node, disk)).collect())
    }

    fn disk(&mut self, node: &str, value: &Value<'t>) -> Option<DiskText> {
        const EXPECTED: &str = "a directory, or a table such as { path = \"/mnt/d0\" }";
        let what = format!("node \"{node}\": disk");
        match value.get_ref() {
            DeValue::String(_) => {
                let (path, line) = self.path(&what, value)?;
                let (latency, bytes_per_second) = (None, None);
                Some(DiskText { path, is_read_only: false, latency, bytes_per_second, line })
            }
            DeValue::Table(table) => {
                let (mut path, mut is_read_only, mut is_wrong) = (None, false, false);
                let (mut latency, mut bytes_per_second) = (None, None);
                for (key, value) in in_order(table) {
                    match key.get_ref().as_ref() {
                        "path" => {
                            path = self.path(&what, value);
                            is_wrong = path.is_none();
                        }
                        "read_only" => {
                            let what = format!("{what}: read_only");
                            is_read_only = self.flag(what, value).unwrap_or(false);
                        }
                        "latency_ms" => {
                            latency = self.latency(format!("{what}: latency_ms"), value);
                        }
                        "mb_per_s" => {
                            bytes_per_second = self.rate(format!("{what}: mb_per_s"), value);
                        }
                        _ => {
                            self.unknown_key(&format!("a disk of node \"{node}\""), key, &DISK_KEYS)
                        }
                    }
                }
                if path.is_none() && !is_wrong {
                    self.wrong_type::<()>(what, EXPECTED, value);
                }
                path.map(|(path, line)| DiskText {
                    path,
                    is_read_only,
                    latency,
                    bytes_per_second,
                    line,
                })
            }
            _ => self.wrong_type(what, EXPECTED, value),
        }
    }

    fn address(&mut self, what: String, value: &Value<'t>) -> Option<Lined<SocketAddr>> {
        let address = value.get_ref().as_str().and_then(|text| text.parse().ok());
        match address {
            Some(address) => Some((address, self.line(&value.span()))),
            None => {
                self.wrong_type(what, "an address and a port, such as \"10.0.0.1:7411\"", value)
            }
        }
    }

    fn path(&mut self, what: &str, value: &Value<'t>) -> Option<Lined<PathBuf>> {
        let Some(text) = value.get_ref().as_str() else {
            return self.wrong_type(what.to_owned(), "a path", value);
        };
        // The components are without doubled slashes and single dots: equal places look equal.
        let path: PathBuf = Path::new(text).components().collect();
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            self.at(
                value.span(),
                Problem::NotAbsolute { what: what.to_owned(), path: text.into() },
            );
            return None;
        }
        Some((path, self.line(&value.span())))
    }

    fn threads(&mut self, what: String, value: &Value<'t>) -> Option<usize> {
        let number = whole(value).and_then(|number| usize::try_from(number).ok());
        match number.filter(|number| (1..=THREADS_LIMIT).contains(number)) {
            None => self.wrong_type(what, "a number from 1 to 1024", value),
            number => number,
        }
    }

    fn size(&mut self, what: String, value: &Value<'t>) -> Option<u64> {
        let size = match value.get_ref() {
            DeValue::String(text) => text.parse().ok().map(|size: ByteSize| size.as_u64()),
            _ => whole(value),
        };
        match size {
            None => self.wrong_type(what, "a size, such as \"256MiB\"", value),
            size => size,
        }
    }

    /// A time; zero is never.
    fn seconds_or_never(&mut self, what: String, value: &Value<'t>) -> Option<Option<Duration>> {
        match number(value).filter(|seconds| (0.0..=SECONDS_LIMIT).contains(seconds)) {
            None => self.wrong_type(what, "a number of seconds, such as 10 or 0.5", value),
            Some(seconds) => Some(Some(Duration::from_secs_f64(seconds)).filter(|d| !d.is_zero())),
        }
    }

    fn grant_epoch(&mut self, what: &str, value: &Value<'t>) -> Option<Duration> {
        const EXPECTED: &str = "a number of seconds from 1 to 3600, such as 30";
        match number(value).filter(|seconds| (1.0..=GRANT_EPOCH_LIMIT_S).contains(seconds)) {
            None => self.wrong_type(what.to_owned(), EXPECTED, value),
            Some(seconds) => Some(Duration::from_secs_f64(seconds)),
        }
    }

    fn latency(&mut self, what: String, value: &Value<'t>) -> Option<Duration> {
        const EXPECTED: &str = "a number of milliseconds from 0 to 10000, such as 13.8";
        match number(value).filter(|ms| (0.0..=LATENCY_LIMIT_MS).contains(ms)) {
            None => self.wrong_type(what, EXPECTED, value),
            Some(ms) => Some(Duration::from_secs_f64(ms / 1e3)),
        }
    }

    /// Bytes per second.
    fn rate(&mut self, what: String, value: &Value<'t>) -> Option<NonZeroU64> {
        const EXPECTED: &str = "a number of megabytes per second from 0.001 to 100000, such as 3.5";
        let rate = number(value).filter(|rate| (MB_PER_S_LEAST..=MB_PER_S_LIMIT).contains(rate));
        #[expect(clippy::cast_possible_truncation, reason = "cut off before")]
        match rate.and_then(|rate| NonZeroU64::new((rate * 1e6).round() as u64)) {
            None => self.wrong_type(what, EXPECTED, value),
            rate => rate,
        }
    }

    fn flag(&mut self, what: String, value: &Value<'t>) -> Option<bool> {
        match value.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            _ => self.wrong_type(what, "true or false", value),
        }
    }

    fn short_cut(&mut self, what: String, value: &Value<'t>) -> Option<ShortCut> {
        match value.get_ref() {
            DeValue::Boolean(true) => return Some(ShortCut::Write),
            DeValue::Boolean(false) => return Some(ShortCut::Off),
            DeValue::String(text) => match text.as_ref() {
                "write" => return Some(ShortCut::Write),
                "read" => return Some(ShortCut::Read),
                "off" => return Some(ShortCut::Off),
                _ => {}
            },
            _ => {}
        }
        self.wrong_type(what, "\"write\", \"read\" or \"off\"", value)
    }

    fn string(&mut self, what: &str, value: &Value<'t>) -> Option<String> {
        match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => self.wrong_type(what.to_owned(), "a string", value),
        }
    }

    /// Names stand before slashes and colons in what people write and read.
    fn check_name(&mut self, what: &'static str, name: &str, span: Range<usize>) {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let is_good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(is_plain)
            && name.len() <= NAME_LIMIT;
        if !is_good {
            self.at(span, Problem::BadName { what, name: name.to_owned() });
        }
    }

    fn wrong_type<T>(
        &mut self,
        what: String,
        expected: &'static str,
        value: &Value<'t>,
    ) -> Option<T> {
        let found = self.text.get(value.span()).unwrap_or_default();
        let found = match found.lines().next() {
            Some(line) if !line.is_empty() && line.len() == found.len() && line.len() <= 40 => {
                line.to_owned()
            }
            _ => format!("a value of type {}", value.get_ref().type_str()),
        };
        self.at(value.span(), Problem::Type { what, expected, found });
        None
    }

    fn unknown_key(&mut self, within: &str, key: &Key<'t>, known: &[&str]) {
        let name = key.get_ref().to_string();
        let suggestion = nearest(&name, known.iter().copied());
        let problem = Problem::UnknownKey { within: within.to_owned(), key: name, suggestion };
        self.at(key.span(), problem);
    }

    fn syntax(&mut self, error: &toml::de::Error, root: &DeTable<'t>) {
        let span = error.span().unwrap_or(0..0);
        if error.message().starts_with("duplicate key")
            && let Some(written) = self.text.get(span.clone())
        {
            let key = written.trim_matches(['"', '\'']);
            if let Some(first) = last_key_before(root, key, span.start) {
                let problem = Problem::Duplicate { key: key.to_owned(), first: self.line(&first) };
                return self.at(span, problem);
            }
        }
        let problem = Problem::Syntax(error.message().trim().replace('\n', "; "));
        let column = Some(self.column(&span));
        let line = Some(self.line(&span));
        self.mistakes.push(Mistake { line, column, problem });
    }

    fn at(&mut self, span: Range<usize>, problem: Problem) {
        let line = Some(self.line(&span));
        self.mistakes.push(Mistake { line, column: None, problem });
    }

    fn line(&self, span: &Range<usize>) -> usize {
        self.before(span).matches('\n').count() + 1
    }

    fn column(&self, span: &Range<usize>) -> usize {
        let before = self.before(span);
        before[before.rfind('\n').map_or(0, |newline| newline + 1)..].chars().count() + 1
    }

    fn before(&self, span: &Range<usize>) -> &'t str {
        self.text.get(..span.start).unwrap_or(self.text)
    }
}

/// A number with or without a fraction; in TOML `nan` and `inf` are such too.
fn number(value: &Value<'_>) -> Option<f64> {
    match value.get_ref() {
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => whole(value).map(|number| number as f64),
    }
}

fn whole(value: &Value<'_>) -> Option<u64> {
    let number = value.get_ref().as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// The entries in the order of the text; a TOML table has none of its own.
fn in_order<'v, 't>(table: &'v DeTable<'t>) -> Vec<(&'v Key<'t>, &'v Value<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Where the last key of this name before a position is.
fn last_key_before(table: &DeTable<'_>, name: &str, before: usize) -> Option<Range<usize>> {
    let here = table.iter().flat_map(|(key, value)| {
        let own = (key.get_ref() == name && key.span().start < before).then(|| key.span());
        let inner = match value.get_ref() {
            DeValue::Table(inner) => last_key_before(inner, name, before),
            _ => None,
        };
        own.into_iter().chain(inner)
    });
    here.max_by_key(|span| span.start)
}
