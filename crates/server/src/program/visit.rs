//! An extent on its way through the threads of a node, and what is shown to a task with it.

use std::ops::Range;
use std::sync::Arc;

use pario_net::Bulk;
use pario_proto::{
    CutPiece, ExtentPlacement, Failure, ProcessRequest, Reply, ReplyMessage, Request,
    SubfileLocation,
};
use pario_store::{AtHand, Extent, ExtentFile};
use parking_lot::Mutex;

use super::here::stays_here;
use super::reader::reader_of;
use crate::disks::NodeDisk;
use crate::operation::{ExtentBytes, ExtentOutput, NeighbourRequest};
use crate::processing::{Awaited, OpenPart, Running, now_ns};

/// An extent on its way.
#[derive(Clone)]
pub struct Visit {
    pub running: Arc<Running>,
    pub place: ExtentPlacement,
    /// Its subfile, among those here.
    pub part: usize,
    /// The extent itself, once it is known.
    pub found: Option<Option<Extent>>,
    /// What the task wants to see with it, if it wants something.
    wants: Option<Arc<Wants>>,
    /// What the task has made of it, if that is to be written.
    pub made: Option<Arc<ExtentOutput>>,
    /// When the last fetched part arrived, if the call is traced.
    ready_ns: u64,
}

/// Parts of other extents that a task wants to see with one.
struct Wants {
    wanted: Vec<NeighbourRequest>,
    /// As far as they are there.
    gathered: Mutex<Vec<Option<Bulk>>>,
}

/// One of them.
#[derive(Clone)]
struct Wish {
    wants: Arc<Wants>,
    number: usize,
}

/// Something that is fetched for a visit.
#[derive(Clone)]
pub struct Piece {
    visit: Visit,
    /// What of another extent; nothing for the extent itself.
    wish: Option<Wish>,
    /// Its subfile, if it is here.
    part: Option<usize>,
}

stays_here!(Visit, Piece);

impl Visit {
    /// An extent that sets out.
    pub fn new(running: Arc<Running>, part: usize, place: ExtentPlacement) -> Self {
        let task = running.task();
        let wanted = task.map_or_else(Vec::new, |task| task.neighbours(place));
        let wants = (!wanted.is_empty()).then(|| {
            let gathered = Mutex::new(vec![None; wanted.len()]);
            Arc::new(Wants { wanted, gathered })
        });
        Self { running, place, part, found: None, wants, made: None, ready_ns: 0 }
    }

    /// Takes what is at hand, without touching a disk; whether that is all that is needed.
    pub fn look(&mut self) -> bool {
        let running = &self.running;
        self.found = at_hand(&running.parts()[self.part], self.place);
        if let Some(found) = &self.found {
            running.note_found(found.as_ref().map(len_of), true);
        }
        if let Some(wants) = &self.wants {
            let mut gathered = wants.gathered.lock();
            for (wanted, slot) in wants.wanted.iter().zip(gathered.iter_mut()) {
                let Some(part) = running.part_of(wanted.placement) else { continue };
                if let Some(extent) = at_hand(&running.parts()[part], wanted.placement) {
                    *slot = cut(running, wanted, extent.as_ref());
                }
            }
        }
        running.is_stopped() || (self.found.is_some() && self.has_others())
    }

    /// Whether everything is there that the task wants to see with the extent.
    fn has_others(&self) -> bool {
        let wants = self.wants.as_ref();
        wants.is_none_or(|wants| wants.gathered.lock().iter().all(Option::is_some))
    }

    /// Whether only the extent itself has to be read.
    pub fn lacks_itself_only(&self) -> bool {
        self.found.is_none() && !self.running.is_stopped() && self.has_others()
    }

    /// Whether other things have to be fetched.
    pub fn lacks_others(&self) -> bool {
        !self.running.is_stopped() && !self.has_others()
    }

    /// Whether an extent was made that is to be written.
    pub fn is_made(&self) -> bool {
        self.made.is_some() && !self.running.is_stopped()
    }

    /// The reader that fetches the extent.
    pub fn reader(&self) -> usize {
        reader_of(self.running.parts()[self.part].disk, self.place)
    }

    /// The numbers of what could be fetched: 0 for the extent itself.
    pub fn pieces(&self) -> Range<u64> {
        0..self.wants.as_ref().map_or(0, |wants| wants.wanted.len()) as u64 + 1
    }

    /// Something to be fetched, unless it is there.
    pub fn piece(&self, number: u64) -> Option<Piece> {
        let wish = usize::try_from(number).ok()?.checked_sub(1).zip(self.wants.clone());
        let wish = wish.map(|(number, wants)| Wish { wants, number });
        let (is_there, place) = match &wish {
            Some(wish) => (wish.is_fulfilled(), wish.wanted().placement),
            None => (self.found.is_some(), self.place),
        };
        let part = self.running.part_of(place);
        (!is_there).then(|| Piece { visit: self.clone(), wish, part })
    }

    /// Something that was fetched is there.
    pub fn take(&mut self, piece: Piece) {
        if piece.wish.is_none() {
            self.found = piece.visit.found;
        }
        self.note_ready();
    }

    /// What a compute thread has to wait for before it can show the extent, and until when.
    pub fn awaited(&self) -> (Awaited, u64) {
        let awaited = if self.wants.is_some() { Awaited::Neighbours } else { Awaited::Disk };
        (awaited, self.ready_ns)
    }

    fn note_ready(&mut self) {
        self.ready_ns = self.running.timeline().map_or(0, |_| now_ns());
    }

    /// Reads the extent itself.
    pub fn read(&mut self) {
        match read(&self.running, self.part, self.place) {
            Ok(extent) => {
                self.running.note_found(extent.as_ref().map(len_of), false);
                self.found = Some(extent);
                self.note_ready();
            }
            Err(failure) => self.running.fail(failure),
        }
    }

    /// What the task wanted to see with it.
    pub fn neighbours(&self) -> Vec<Bulk> {
        let wants = self.wants.as_ref();
        wants.map_or_else(Vec::new, |wants| {
            wants.gathered.lock().iter().flatten().cloned().collect()
        })
    }
}

impl Wish {
    fn wanted(&self) -> &NeighbourRequest {
        &self.wants.wanted[self.number]
    }

    fn is_fulfilled(&self) -> bool {
        self.wants.gathered.lock()[self.number].is_some()
    }

    fn fulfil(&self, bytes: Option<Bulk>) {
        self.wants.gathered.lock()[self.number] = bytes;
    }
}

impl Piece {
    /// Whether it is at this node.
    pub fn is_here(&self) -> bool {
        self.part.is_some()
    }

    /// The reader that fetches it.
    pub fn reader(&self) -> usize {
        let place = self.wish.as_ref().map_or(self.visit.place, |wish| wish.wanted().placement);
        self.part.map_or(0, |part| reader_of(self.visit.running.parts()[part].disk, place))
    }

    /// Reads it from a disk of this node.
    pub fn read(mut self) -> Self {
        let running = self.visit.running.clone();
        if running.is_stopped() {
            return self;
        }
        match (&self.wish, self.part) {
            (Some(wish), Some(part)) => match read(&running, part, wish.wanted().placement) {
                Ok(extent) => wish.fulfil(cut(&running, wish.wanted(), extent.as_ref())),
                Err(failure) => running.fail(failure),
            },
            _ => self.visit.read(),
        }
        self
    }

    /// Asks the node that has it; `then` is told when it is there, or will never be.
    pub fn ask(self, then: impl FnOnce(Self) + Send + 'static) {
        if self.node().is_some() {
            return self.ask_node(then);
        }
        // Nodes may have joined that this one has not heard of.
        let shared = self.visit.running.shared.clone();
        shared.strangers.ask_around(move || self.ask_node(then));
    }

    /// The node that has it, as far as this node knows the others.
    fn node(&self) -> Option<(SubfileLocation, usize)> {
        let running = &self.visit.running;
        let place = self.wish.as_ref()?.wanted().placement;
        let part = running.work.parts.get(place.subfile.0 as usize).copied()?;
        let (node, _) = running.shared.map.read().disk(part.disk)?;
        Some((part, usize::try_from(node).ok()?))
    }

    fn ask_node(self, then: impl FnOnce(Self) + Send + 'static) {
        let running = self.visit.running.clone();
        let Some(wish) = self.wish.clone() else {
            unreachable!("the extent itself is at this node")
        };
        let wanted = wish.wanted();
        let Some((part, node)) = self.node() else {
            running.fail_at(Some(wanted.placement), "no node of the cluster has it".to_owned());
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
                    wish.fulfil(Some(bytes));
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
        _ => Err(Failure::Invalid("a node has answered something else".to_owned())),
    }
}

/// What is known of an extent without touching a disk: nothing; that there is none; itself. What is
/// wrong with it shows when it is read.
fn at_hand(open: &OpenPart, place: ExtentPlacement) -> Option<Option<Extent>> {
    let Some(file) = &open.file else { return Some(None) };
    match file.at_hand(place.extent.0) {
        Ok(AtHand::Extent(extent)) => Some(Some(extent)),
        Ok(AtHand::Absent) => Some(None),
        Ok(AtHand::Unknown) | Err(_) => None,
    }
}

fn read(running: &Running, part: usize, place: ExtentPlacement) -> Result<Option<Extent>, Failure> {
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
    let read = file.read_of_many(place.extent.0);
    let found = read.map_err(|error| disk.failure(error, file.id(), "read an extent"))?;
    if let Some(extent) = &found {
        disk.load.read(len_of(extent));
    }
    Ok(found)
}

/// The part of an extent that a task wants to see.
fn cut(running: &Running, wanted: &NeighbourRequest, extent: Option<&Extent>) -> Option<Bulk> {
    match running.operation.cut(&wanted.selection, extent.map(stored)) {
        Ok(bytes) => Some(Bulk::from(bytes)),
        Err(why) => {
            running.fail_at(Some(wanted.placement), why);
            None
        }
    }
}

/// Header and body.
pub fn stored(extent: &Extent) -> ExtentBytes<'_> {
    ExtentBytes { header: extent.header(), body: extent.body() }
}

/// Bytes of header and body.
pub fn len_of(extent: &Extent) -> u64 {
    (extent.header().len() + extent.body().len()) as u64
}
