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
use pario_store::{BufferPool, Extent, ExtentBuffer, ExtentPeek, StoreError};
use parking_lot::Mutex;

use crate::operation::{ExtentBytes, NeighbourRequest};
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
    /// The extent that the task has produced, if it must be written.
    pub output: Option<Arc<OutputExtent>>,
    /// When the last fetch ended, if the call is traced.
    ready_ns: u64,
}

/// An extent that a task has produced, in memory from which the disk can take it.
pub struct OutputExtent {
    pub placement: ExtentPlacement,
    extent: Mutex<Option<Result<ExtentBuffer, StoreError>>>,
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
    /// The extent of the neighbour, until the neighbour is cut from it; the inner `None` says that
    /// it does not exist.
    read: Option<Option<Extent>>,
}

impl Token for ScheduledExtent {}
impl Token for FetchTask {}

impl ScheduledExtent {
    /// Schedules an extent.
    pub fn new(running: Arc<RunningCall>, part: usize, place: ExtentPlacement) -> Self {
        let task = running.task();
        let wanted = task.map_or_else(Vec::new, |task| task.neighbours(place));
        let neighbours = (!wanted.is_empty()).then(|| {
            let fetched = Mutex::new(vec![None; wanted.len()]);
            Arc::new(NeighbourSet { wanted, fetched })
        });
        Self { running, place, part, content: None, neighbours, output: None, ready_ns: 0 }
    }

    /// Loads the extent and its neighbours from the cache, without a disk access. Returns whether
    /// nothing else is needed.
    pub fn load_cached(&mut self) -> bool {
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
        (!is_there).then(|| FetchTask { extent: self.clone(), neighbour, part, read: None })
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

    /// Sets the extent that was read; `None` if the read has failed.
    pub fn set_content(&mut self, read: Option<Option<Extent>>) {
        if let Some(found) = read {
            self.running.note_found(found.as_ref().map(len_of), false);
            self.content = Some(found);
            self.note_ready();
        }
    }

    /// Returns the fetched neighbours.
    pub fn neighbours(&self) -> Vec<Bulk> {
        let set = self.neighbours.as_ref();
        set.map_or_else(Vec::new, |set| set.fetched.lock().iter().flatten().cloned().collect())
    }
}

impl OutputExtent {
    /// Copies an extent that a task has produced.
    pub fn copy_of(
        pool: &BufferPool,
        placement: ExtentPlacement,
        header: &[u8],
        body: &[u8],
    ) -> Self {
        let extent = Mutex::new(Some(ExtentBuffer::copy_of(pool, header, body)));
        Self { placement, extent }
    }

    /// Takes the extent, once; fails if it is too long.
    pub fn take(&self) -> Result<ExtentBuffer, StoreError> {
        let Some(extent) = self.extent.lock().take() else {
            unreachable!("an output is written once")
        };
        extent
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

    /// Returns the call.
    pub fn running(&self) -> &Arc<RunningCall> {
        &self.extent.running
    }

    /// Returns the open subfile and the placement of the extent to read, if it is on this node.
    pub fn source(&self) -> Option<(usize, ExtentPlacement)> {
        let neighbour = self.neighbour.as_ref();
        let place = neighbour.map_or(self.extent.place, |neighbour| neighbour.wanted().placement);
        Some((self.part?, place))
    }

    /// Sets the extent that was read; `None` if the read has failed.
    pub fn set_read(&mut self, read: Option<Option<Extent>>) {
        match self.neighbour {
            Some(_) => self.read = read,
            None => self.extent.set_content(read),
        }
    }

    /// Returns whether a neighbour must be cut from the extent that was read.
    pub fn is_uncut(&self) -> bool {
        self.read.is_some()
    }

    /// Cuts the neighbour from the extent that was read.
    pub fn cut(mut self) -> Self {
        if let (Some(neighbour), Some(found)) = (&self.neighbour, self.read.take()) {
            neighbour.set(cut(&self.extent.running, neighbour.wanted(), found.as_ref()));
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
            operation: running.work.operation.clone(),
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

/// Returns the piece of an extent that a task needs.
fn cut(running: &RunningCall, wanted: &NeighbourRequest, extent: Option<&Extent>) -> Option<Bulk> {
    match running.operation.cut(&wanted.selection, extent.map(stored)) {
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
