//! A scheduled extent: an extent on its way through the threads of a node, with the neighbours that
//! its task needs.

use std::ops::Range;
use std::sync::Arc;

use pario_flow::Token;
use pario_net::Bulk;
use pario_net::clock::monotonic_ns;
use pario_proto::{
    CutPiece, ExtentPlacement, Failure, ProcessRequest, Reply, ReplyMessage, Request,
    SubfileLocation,
};
use pario_store::{Extent, ExtentFile, ExtentPeek};
use parking_lot::Mutex;

use super::reader::reader_of;
use crate::disks::NodeDisk;
use crate::operation::{ExtentBytes, ExtentOutput, NeighbourRequest};
use crate::processing::{Awaited, OpenSubfile, RunningCall};

/// A scheduled extent.
#[derive(Clone)]
pub struct ScheduledExtent {
    pub running: Arc<RunningCall>,
    pub place: ExtentPlacement,
    /// The number of its subfile among the open ones.
    pub part: usize,
    /// The extent, once it is read; the inner `None` says that it does not exist.
    pub content: Option<Option<Extent>>,
    /// The neighbours that the task needs, if any.
    neighbours: Option<Arc<NeighbourSet>>,
    /// The output of the task, if it must be written.
    pub output: Option<Arc<ExtentOutput>>,
    /// When the last fetch ended, if the call is traced.
    ready_ns: u64,
}

/// Pieces of other extents that a task needs with one extent.
struct NeighbourSet {
    wanted: Vec<NeighbourRequest>,
    /// The pieces that are fetched so far.
    fetched: Mutex<Vec<Option<Bulk>>>,
}

/// One of the pieces.
#[derive(Clone)]
struct NeighbourSlot {
    set: Arc<NeighbourSet>,
    number: usize,
}

/// A fetch for a scheduled extent.
#[derive(Clone)]
pub struct FetchTask {
    extent: ScheduledExtent,
    /// The neighbour to fetch; `None` for the extent itself.
    neighbour: Option<NeighbourSlot>,
    /// The number of the subfile among the open ones, if it is on this node.
    part: Option<usize>,
}

impl Token for ScheduledExtent {}
impl Token for FetchTask {}

impl ScheduledExtent {
    /// Schedules an extent.
    pub fn new(running: Arc<RunningCall>, part: usize, place: ExtentPlacement) -> Self {
        Self { running, place, part, content: None, neighbours: None, output: None, ready_ns: 0 }
    }

    /// Asks the task for the neighbours that it needs.
    fn list_neighbours(&mut self) {
        if self.running.is_stopped() {
            return;
        }
        let listed = self.running.task().map(|task| task.neighbours(self.place));
        match listed {
            Some(Ok(wanted)) if !wanted.is_empty() => {
                let fetched = Mutex::new(vec![None; wanted.len()]);
                self.neighbours = Some(Arc::new(NeighbourSet { wanted, fetched }));
            }
            Some(Err(why)) => self.running.fail_at(Some(self.place), why),
            _ => {}
        }
    }

    /// Lists the neighbours, and loads them and the extent from the cache, without a disk access.
    /// Returns whether nothing else is needed.
    pub fn load_cached(&mut self) -> bool {
        self.list_neighbours();
        let running = &self.running;
        self.content = cached_extent(&running.parts()[self.part], self.place);
        if let Some(found) = &self.content {
            running.note_found(found.as_ref().map(len_of), true);
        }
        if let Some(set) = &self.neighbours {
            let mut fetched = set.fetched.lock();
            for (wanted, slot) in set.wanted.iter().zip(fetched.iter_mut()) {
                let Some(part) = running.part_of(wanted.placement) else { continue };
                if let Some(extent) = cached_extent(&running.parts()[part], wanted.placement) {
                    *slot = cut(running, wanted, extent.as_ref());
                }
            }
        }
        running.is_stopped() || (self.content.is_some() && self.has_neighbours())
    }

    /// Returns whether all neighbours are fetched.
    fn has_neighbours(&self) -> bool {
        let set = self.neighbours.as_ref();
        set.is_none_or(|set| set.fetched.lock().iter().all(Option::is_some))
    }

    /// Returns whether only the extent itself must be read.
    pub fn lacks_only_itself(&self) -> bool {
        self.content.is_none() && !self.running.is_stopped() && self.has_neighbours()
    }

    /// Returns whether neighbours must be fetched.
    pub fn lacks_neighbours(&self) -> bool {
        !self.running.is_stopped() && !self.has_neighbours()
    }

    /// Returns whether the task has produced an extent to write.
    pub fn has_output(&self) -> bool {
        self.output.is_some() && !self.running.is_stopped()
    }

    /// Returns the reader of the extent.
    pub fn reader(&self) -> usize {
        reader_of(self.running.parts()[self.part].disk, self.place)
    }

    /// Returns the numbers of possible fetches: 0 for the extent itself, then the neighbours.
    pub fn fetch_numbers(&self) -> Range<u64> {
        0..self.neighbours.as_ref().map_or(0, |set| set.wanted.len()) as u64 + 1
    }

    /// Returns a fetch by its number, unless it is done.
    pub fn fetch_task(&self, number: u64) -> Option<FetchTask> {
        let neighbour = usize::try_from(number).ok()?.checked_sub(1).zip(self.neighbours.clone());
        let neighbour = neighbour.map(|(number, set)| NeighbourSlot { set, number });
        let (is_there, place) = match &neighbour {
            Some(neighbour) => (neighbour.is_fetched(), neighbour.wanted().placement),
            None => (self.content.is_some(), self.place),
        };
        let part = self.running.part_of(place);
        (!is_there).then(|| FetchTask { extent: self.clone(), neighbour, part })
    }

    /// Takes the result of a fetch.
    pub fn add_fetched(&mut self, fetch: FetchTask) {
        if fetch.neighbour.is_none() {
            self.content = fetch.extent.content;
        }
        self.note_ready();
    }

    /// Returns what a compute thread waits for before it can process the extent, and when that was
    /// ready.
    pub fn awaited(&self) -> (Awaited, u64) {
        let awaited = if self.neighbours.is_some() { Awaited::Neighbours } else { Awaited::Disk };
        (awaited, self.ready_ns)
    }

    fn note_ready(&mut self) {
        self.ready_ns = self.running.timeline().map_or(0, |_| monotonic_ns());
    }

    /// Reads the extent itself.
    pub fn read(&mut self) {
        match read(&self.running, self.part, self.place) {
            Ok(extent) => {
                self.running.note_found(extent.as_ref().map(len_of), false);
                self.content = Some(extent);
                self.note_ready();
            }
            Err(failure) => self.running.fail(failure),
        }
    }

    /// Returns the fetched neighbours.
    pub fn neighbours(&self) -> Vec<Bulk> {
        let set = self.neighbours.as_ref();
        set.map_or_else(Vec::new, |set| set.fetched.lock().iter().flatten().cloned().collect())
    }
}

impl NeighbourSlot {
    fn wanted(&self) -> &NeighbourRequest {
        &self.set.wanted[self.number]
    }

    fn is_fetched(&self) -> bool {
        self.set.fetched.lock()[self.number].is_some()
    }

    fn set(&self, bytes: Option<Bulk>) {
        self.set.fetched.lock()[self.number] = bytes;
    }
}

impl FetchTask {
    /// Returns whether the data is on this node.
    pub fn is_here(&self) -> bool {
        self.part.is_some()
    }

    /// Returns the reader for the fetch.
    pub fn reader(&self) -> usize {
        let place = self
            .neighbour
            .as_ref()
            .map_or(self.extent.place, |neighbour| neighbour.wanted().placement);
        self.part.map_or(0, |part| reader_of(self.extent.running.parts()[part].disk, place))
    }

    /// Fetches from a disk of this node.
    pub fn read(mut self) -> Self {
        let running = self.extent.running.clone();
        if running.is_stopped() {
            return self;
        }
        match (&self.neighbour, self.part) {
            (Some(neighbour), Some(part)) => {
                match read(&running, part, neighbour.wanted().placement) {
                    Ok(extent) => neighbour.set(cut(&running, neighbour.wanted(), extent.as_ref())),
                    Err(failure) => running.fail(failure),
                }
            }
            _ => self.extent.read(),
        }
        self
    }

    /// Fetches from another node. Calls `then` when the fetch has ended, also if it failed.
    pub fn fetch_from_node(self, then: impl FnOnce(Self) + Send + 'static) {
        if self.node().is_some() {
            return self.send_request(then);
        }
        // This node may not know a node that has joined lately.
        let shared = self.extent.running.shared.clone();
        shared.map_waiters.wait_for_map(move || self.send_request(then));
    }

    /// Returns the node that has the neighbour, if this node knows it.
    fn node(&self) -> Option<(SubfileLocation, usize)> {
        let running = &self.extent.running;
        let place = self.neighbour.as_ref()?.wanted().placement;
        let part = running.work.parts.get(place.subfile.0 as usize).copied()?;
        let (node, _) = running.shared.map.read().disk(part.disk)?;
        Some((part, usize::try_from(node).ok()?))
    }

    fn send_request(self, then: impl FnOnce(Self) + Send + 'static) {
        let running = self.extent.running.clone();
        let Some(neighbour) = self.neighbour.clone() else {
            unreachable!("the extent itself is at this node")
        };
        let wanted = neighbour.wanted();
        let Some((part, node)) = self.node() else {
            running.fail_at(
                Some(wanted.placement),
                "no node of the cluster has the disk of this extent".to_owned(),
            );
            return then(self);
        };
        let request = ProcessRequest::Cut {
            grant: running.shared.reissue(&running.work.grant),
            operation: running.operation().map(|(_, name)| name.clone()).unwrap_or_default(),
            pieces: vec![CutPiece {
                place: wanted.placement,
                part,
                what: wanted.selection.clone(),
            }],
        };
        let peers = running.clone();
        peers.shared.peers.ask_then(node, Request::Process(request), move |answer| {
            match answer.and_then(one_piece) {
                Ok(bytes) => {
                    running.note_neighbour(bytes.len() as u64);
                    neighbour.set(Some(bytes));
                }
                Err(failure) => running.fail(failure),
            }
            then(self);
        });
    }
}

fn one_piece(answer: ReplyMessage<Bulk>) -> Result<Bulk, Failure> {
    match (answer.result?, answer.data.into_iter().next()) {
        (Reply::Cut, Some(bytes)) => Ok(bytes),
        _ => Err(Failure::Invalid(
            "a node has sent a reply that does not fit the request".to_owned(),
        )),
    }
}

/// Returns an extent from the cache: `None` if only a read can tell, `Some(None)` if it does not
/// exist. A read reports a damaged extent.
fn cached_extent(open: &OpenSubfile, place: ExtentPlacement) -> Option<Option<Extent>> {
    let Some(file) = &open.file else { return Some(None) };
    match file.peek(place.extent.0) {
        Ok(ExtentPeek::Extent(extent)) => Some(Some(extent)),
        Ok(ExtentPeek::Absent) => Some(None),
        Ok(ExtentPeek::Unknown) | Err(_) => None,
    }
}

fn read(
    running: &RunningCall,
    part: usize,
    place: ExtentPlacement,
) -> Result<Option<Extent>, Failure> {
    let open = &running.parts()[part];
    let Some(file) = &open.file else { return Ok(None) };
    let disk = running.shared.disks.disk(open.disk);
    running.timed(|| disk.name.clone(), "read", || read_extent(disk, file, place))
}

/// Reads an extent from its disk.
pub fn read_extent(
    disk: &NodeDisk,
    file: &ExtentFile,
    place: ExtentPlacement,
) -> Result<Option<Extent>, Failure> {
    let read = file.read_prefetching_index(place.extent.0);
    let found = read.map_err(|error| disk.failure(error, file.id(), "read an extent"))?;
    if let Some(extent) = &found {
        disk.load.read(len_of(extent));
    }
    Ok(found)
}

/// Returns the piece of an extent that a task needs.
fn cut(running: &RunningCall, wanted: &NeighbourRequest, extent: Option<&Extent>) -> Option<Bulk> {
    let (operation, _) = running.operation()?;
    match operation.cut(&wanted.selection, extent.map(stored)) {
        Ok(bytes) => Some(Bulk::from(bytes)),
        Err(why) => {
            running.fail_at(Some(wanted.placement), why);
            None
        }
    }
}

/// Returns header and body.
pub fn stored(extent: &Extent) -> ExtentBytes<'_> {
    ExtentBytes { header: extent.header(), body: extent.body() }
}

/// Returns the number of bytes of header and body.
pub fn len_of(extent: &Extent) -> u64 {
    (extent.header().len() + extent.body().len()) as u64
}
