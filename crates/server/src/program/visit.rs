//! An extent on its way through the threads of a node, and what is shown to a task with it.

use std::ops::Range;
use std::sync::Arc;

use pario_net::Bulk;
use pario_proto::{Answer, CutPiece, ExtentPlace, Failure, ProcessRequest, Reply, Request};
use pario_store::{AtHand, Extent, ExtentFile};
use parking_lot::Mutex;

use super::here::stays_here;
use crate::disks::NodeDisk;
use crate::operation::{Outcome, Stored, Wanted};
use crate::processing::{OpenPart, Running};

/// An extent on its way.
#[derive(Clone)]
pub struct Visit {
    pub running: Arc<Running>,
    pub place: ExtentPlace,
    /// Its subfile, among those here.
    pub part: usize,
    /// The extent itself, once it is known.
    pub found: Option<Option<Extent>>,
    /// What the task wants to see with it.
    wanted: Arc<Vec<Wanted>>,
    /// As far as it is there.
    gathered: Arc<Mutex<Vec<Option<Bulk>>>>,
    /// What the task has made of it, if that is to be written.
    pub made: Option<Arc<Outcome>>,
}

/// Something that is fetched for a visit.
#[derive(Clone)]
pub struct Piece {
    visit: Visit,
    /// Which of the things wanted; nothing for the extent itself.
    wanted: Option<usize>,
    /// Its subfile, if it is here.
    part: Option<usize>,
}

stays_here!(Visit, Piece);

impl Visit {
    /// An extent that sets out.
    pub fn new(running: Arc<Running>, part: usize, place: ExtentPlace) -> Self {
        let task = running.task();
        let wanted = task.map_or_else(Vec::new, |task| task.wants(place));
        let gathered = Arc::new(Mutex::new(vec![None; wanted.len()]));
        Self { running, place, part, found: None, wanted: Arc::new(wanted), gathered, made: None }
    }

    /// Takes what is at hand, without touching a disk; whether that is all that is needed.
    pub fn look(&mut self) -> bool {
        let running = self.running.clone();
        self.found = at_hand(&running.parts()[self.part], self.place);
        if let Some(found) = &self.found {
            running.note_found(found.as_ref().map(len_of), true);
        }
        let mut gathered = self.gathered.lock();
        for (wanted, slot) in self.wanted.iter().zip(gathered.iter_mut()) {
            let Some(part) = running.part_of(wanted.place) else { continue };
            if let Some(extent) = at_hand(&running.parts()[part], wanted.place) {
                *slot = cut(&running, wanted, extent.as_ref());
            }
        }
        running.is_stopped() || (self.found.is_some() && gathered.iter().all(Option::is_some))
    }

    /// Whether only the extent itself has to be read.
    pub fn lacks_itself_only(&self) -> bool {
        self.found.is_none()
            && !self.running.is_stopped()
            && self.gathered.lock().iter().all(Option::is_some)
    }

    /// Whether other things have to be fetched.
    pub fn lacks_others(&self) -> bool {
        !self.running.is_stopped() && self.gathered.lock().iter().any(Option::is_none)
    }

    /// Whether an extent was made that is to be written.
    pub fn is_made(&self) -> bool {
        self.made.is_some() && !self.running.is_stopped()
    }

    /// The storage thread that has the extent.
    pub fn thread(&self) -> usize {
        self.running.parts()[self.part].thread
    }

    /// The numbers of what could be fetched: 0 for the extent itself.
    pub fn pieces(&self) -> Range<u64> {
        0..self.wanted.len() as u64 + 1
    }

    /// Something to be fetched, unless it is there.
    pub fn piece(&self, number: u64) -> Option<Piece> {
        let wanted = usize::try_from(number).ok()?.checked_sub(1);
        let (is_there, place) = match wanted {
            None => (self.found.is_some(), self.place),
            Some(wanted) => (self.gathered.lock()[wanted].is_some(), self.wanted[wanted].place),
        };
        let part = self.running.part_of(place);
        (!is_there).then(|| Piece { visit: self.clone(), wanted, part })
    }

    /// Something that was fetched is there.
    pub fn take(&mut self, piece: Piece) {
        if piece.wanted.is_none() {
            self.found = piece.visit.found;
        }
    }

    /// Reads the extent itself.
    pub fn read(&mut self) {
        match read(&self.running, self.part, self.place) {
            Ok(extent) => {
                self.running.note_found(extent.as_ref().map(len_of), false);
                self.found = Some(extent);
            }
            Err(failure) => self.running.fail(failure),
        }
    }

    /// What the task wanted to see with it.
    pub fn neighbours(&self) -> Vec<Bulk> {
        self.gathered.lock().iter().flatten().cloned().collect()
    }
}

impl Piece {
    /// Whether it is at this node.
    pub fn is_here(&self) -> bool {
        self.part.is_some()
    }

    /// The storage thread that has it.
    pub fn thread(&self) -> usize {
        self.part.map_or(0, |part| self.visit.running.parts()[part].thread)
    }

    /// Reads it from a disk of this node.
    pub fn read(mut self) -> Self {
        let running = self.visit.running.clone();
        if running.is_stopped() {
            return self;
        }
        match (self.wanted, self.part) {
            (Some(number), Some(part)) => {
                let wanted = &self.visit.wanted[number];
                match read(&running, part, wanted.place) {
                    Ok(extent) => {
                        let bytes = cut(&running, wanted, extent.as_ref());
                        self.visit.gathered.lock()[number] = bytes;
                    }
                    Err(failure) => running.fail(failure),
                }
            }
            _ => self.visit.read(),
        }
        self
    }

    /// Asks the node that has it; `then` is told when it is there, or will never be.
    pub fn ask(self, then: impl FnOnce(Self) + Send + 'static) {
        let running = self.visit.running.clone();
        let Some((number, wanted)) =
            self.wanted.map(|number| (number, self.visit.wanted[number].clone()))
        else {
            unreachable!("the extent itself is at this node")
        };
        let part = running.work.parts.get(wanted.place.subfile.0 as usize).copied();
        let node = part.and_then(|part| {
            let map = running.shared.map.read();
            map.disk(part.disk).and_then(|(node, _)| usize::try_from(node).ok())
        });
        let (Some(part), Some(node)) = (part, node) else {
            running.fail_at(Some(wanted.place), "no node of the cluster has it".to_owned());
            return then(self);
        };
        let request = ProcessRequest::Cut {
            grant: running.work.grant.clone(),
            operation: running.work.operation.clone(),
            pieces: vec![CutPiece { place: wanted.place, part, what: wanted.what }],
        };
        let peers = running.clone();
        peers.shared.peers.ask_then(node, Request::Process(request), move |answer| {
            match answer.and_then(one_piece) {
                Ok(bytes) => {
                    running.note_neighbour(bytes.len() as u64);
                    self.visit.gathered.lock()[number] = Some(bytes);
                }
                Err(failure) => running.fail(failure),
            }
            then(self);
        });
    }
}

fn one_piece(answer: Answer<Bulk>) -> Result<Bulk, Failure> {
    match (answer.result?, answer.data.into_iter().next()) {
        (Reply::Cut, Some(bytes)) => Ok(bytes),
        _ => Err(Failure::Invalid("a node has answered something else".to_owned())),
    }
}

/// What is known of an extent without touching a disk: nothing; that there is none; itself. What is
/// wrong with it shows when it is read.
fn at_hand(open: &OpenPart, place: ExtentPlace) -> Option<Option<Extent>> {
    let Some(file) = &open.file else { return Some(None) };
    match file.at_hand(place.extent.0) {
        Ok(AtHand::Extent(extent)) => Some(Some(extent)),
        Ok(AtHand::Absent) => Some(None),
        Ok(AtHand::Unknown) | Err(_) => None,
    }
}

fn read(running: &Running, part: usize, place: ExtentPlace) -> Result<Option<Extent>, Failure> {
    let open = &running.parts()[part];
    let Some(file) = &open.file else { return Ok(None) };
    let disk = running.shared.disks.disk(open.disk);
    running.timed(|| disk.name.clone(), "read", || read_extent(disk, file, place))
}

/// Reads an extent from its disk.
pub fn read_extent(
    disk: &NodeDisk,
    file: &ExtentFile,
    place: ExtentPlace,
) -> Result<Option<Extent>, Failure> {
    let read = file.read(place.extent.0);
    let found = read.map_err(|error| disk.failure(error, file.id(), "read an extent"))?;
    if let Some(extent) = &found {
        disk.load.read(len_of(extent));
    }
    Ok(found)
}

/// The part of an extent that a task wants to see.
fn cut(running: &Running, wanted: &Wanted, extent: Option<&Extent>) -> Option<Bulk> {
    match running.operation.cut(&wanted.what, extent.map(stored)) {
        Ok(bytes) => Some(Bulk::from(bytes)),
        Err(why) => {
            running.fail_at(Some(wanted.place), why);
            None
        }
    }
}

/// Header and body.
pub fn stored(extent: &Extent) -> Stored<'_> {
    Stored { header: extent.header(), body: extent.body() }
}

/// Bytes of header and body.
pub fn len_of(extent: &Extent) -> u64 {
    (extent.header().len() + extent.body().len()) as u64
}
