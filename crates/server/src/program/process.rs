//! Work with extents as an operation of the node's program: one request, many extents, some read
//! while others are computed and others are sent.

use std::ops::Range;
use std::sync::Arc;

use pario_flow::{Continuation, OperationRef, PoolRef, Program, ThreadRef, Token, Window};
use pario_net::clock::monotonic_ns;
use pario_proto::SubfileLocation;

use super::compute::Compute;
use super::reader::Reader;
use super::storage::Storage;
use super::visit::{Piece, Visit};
use crate::processing::{COMPANY, OpenPart, Route, Running};

/// So many parts of other extents are fetched at once to be shown with one: all around a tile.
const PIECES: usize = 32;

/// The walker: sends the extents of all calls on their way, and sees them come back. It waits for
/// no disk, and computes nothing.
pub struct Walker;

/// A call.
#[derive(Clone)]
pub struct Calling(pub Arc<Running>);

/// A subfile that is to be opened.
#[derive(Clone)]
pub struct Opening {
    pub running: Arc<Running>,
    pub part: SubfileLocation,
    pub disk: usize,
    pub thread: usize,
}

/// A subfile that was opened; nothing if it cannot be.
#[derive(Clone)]
pub struct Opened(pub Option<OpenPart>);

/// Subfiles of a call that were opened.
struct AllOpened {
    running: Arc<Running>,
    parts: Vec<OpenPart>,
}

/// A call, and its extents that have not set out.
struct Walk {
    running: Arc<Running>,
    route: Route,
    /// So many are left.
    left: u64,
    /// So many set out together at most.
    company: usize,
}

/// Extents that set out together. Only those stay of which more has to be fetched, or to be written.
#[derive(Clone)]
pub struct Company {
    pub running: Arc<Running>,
    pub visits: Vec<Visit>,
    /// When it set out, if the call is traced.
    pub ready_ns: u64,
}

impl Token for Calling {}
impl Token for Opening {}
impl Token for Opened {}
impl Token for AllOpened {}
impl Token for Walk {}
impl Token for Company {}

/// The threads that work with extents.
#[derive(Clone, Copy)]
pub struct Workers {
    pub walker: ThreadRef<Walker>,
    pub storage: PoolRef<Storage>,
    pub readers: PoolRef<Reader>,
    pub compute: PoolRef<Compute>,
    /// So many companies of a call are under way.
    pub window: usize,
}

/// Adds the operation.
///
/// Its windows are fixed. An automatic one is the smallest that keeps *a* thread busy; here each disk
/// has a thread of its own, and all of them should be. And calls that run beside each other would
/// take the waiting that they cause each other for tokens too many, until hardly any are under way.
pub fn add_to(program: &mut Program, workers: Workers) -> OperationRef<Calling, Calling> {
    let Workers { walker, storage, readers, compute, window } = workers;
    let open = program.operation("open subfiles", |b| {
        b.on(walker)
            .split_indexed(Calling::numbers, Calling::opening)
            .on(storage.at(|opening: &Opening| opening.thread))
            .run(Storage::open_part)
            .named("open")
            .merge(walker, AllOpened::none, AllOpened::add)
            .map(AllOpened::done)
    });
    let fetch = program.operation("fetch", |b| {
        b.on(walker)
            .window(Window::fixed(PIECES))
            .split_indexed(Visit::pieces, Visit::piece)
            .if_else(
                Piece::is_here,
                |b| {
                    let read = |_: &mut Reader, piece: Piece| piece.read();
                    b.on(readers.at(Piece::reader)).run(read).named("read")
                },
                |b| b.on(walker).run_async(Walker::ask).named("ask"),
            )
            .merge(walker, Clone::clone, Visit::take)
    });
    let visit = program.operation("visit", |b| {
        b.on(walker)
            .window(Window::fixed(COMPANY))
            .split_indexed(Company::numbers, Company::visit)
            .when(Visit::lacks_itself_only, |b| {
                b.on(readers.at(Visit::reader))
                    .run(Reader::fetch)
                    .named("read")
                    .on(compute.any())
                    .run_async(Compute::see)
                    .named("see")
            })
            .when(Visit::lacks_others, |b| {
                b.call(fetch).on(compute.any()).run_async(Compute::see).named("see")
            })
            .when(Visit::is_made, |b| {
                b.on(storage.at(Visit::target_thread)).run(Storage::put).named("write")
            })
            .merge(walker, Clone::clone, |company: &mut Company, _: Visit| {
                company.running.note_done();
            })
    });
    program.operation("process", |b| {
        b.on(compute.any())
            .run(Compute::prepare)
            .named("prepare")
            .call(open)
            .on(walker)
            .map(Walk::begin)
            .window(Window::fixed(window))
            .split_while(Walk::next)
            .on(compute.any())
            .run_async(Compute::look)
            .named("look")
            .when(Company::is_unfinished, |b| b.call(visit))
            .merge(walker, |walk: &Walk| Calling(walk.running.clone()), |_, _: Company| ())
            .on(compute.any())
            .run(Compute::finish)
            .named("finish")
    })
}

impl Walker {
    /// Asks another node for something that is wanted with an extent.
    fn ask(&mut self, piece: Piece, next: Continuation<Piece>) {
        piece.ask(move |piece| next.call(piece));
    }
}

impl Calling {
    /// The numbers of the subfiles that are to be opened.
    fn numbers(&self) -> Range<u64> {
        match self.0.has_parts() {
            true => 0..0,
            false => 0..self.0.work.parts.len() as u64,
        }
    }

    /// A subfile that is to be opened, if it is here.
    fn opening(&self, number: u64) -> Option<Opening> {
        let running = self.0.clone();
        let part = *running.work.parts.get(usize::try_from(number).ok()?)?;
        let disk = running.shared.disks.number_of(part.disk).ok()?;
        let thread = running.shared.disks.disk(disk).thread;
        Some(Opening { running, part, disk, thread })
    }
}

impl AllOpened {
    fn none(call: &Calling) -> Self {
        Self { running: call.0.clone(), parts: Vec::new() }
    }

    fn add(&mut self, opened: Opened) {
        self.parts.extend(opened.0);
    }

    fn done(mut self) -> Calling {
        self.parts.sort_by_key(|open| open.part.subfile);
        self.running.set_parts(self.parts);
        Calling(self.running)
    }
}

impl Walk {
    fn begin(call: Calling) -> Self {
        let route = call.0.route();
        let company = call.0.company(route.first(call.0.parts()));
        Self { running: call.0, left: route.len(), route, company }
    }

    /// The next extents. Towards the end fewer set out together, so that no thread has to wait long
    /// for another one.
    fn next(&mut self) -> Option<Company> {
        if self.running.is_stopped() {
            return None;
        }
        let running = self.running.clone();
        let share = self.left / (4 * running.threads() as u64);
        let count = usize::try_from(share).unwrap_or(self.company).clamp(1, self.company);
        let visit = |(part, place)| Visit::new(running.clone(), part, place);
        let next = std::iter::from_fn(|| self.route.next(running.parts()));
        let visits: Vec<Visit> = next.take(count).map(visit).collect();
        self.left = self.left.saturating_sub(visits.len() as u64);
        let ready_ns = running.timeline().map_or(0, |_| monotonic_ns());
        (!visits.is_empty()).then(|| Company { running, visits, ready_ns })
    }
}

impl Company {
    fn is_unfinished(&self) -> bool {
        !self.visits.is_empty()
    }

    fn numbers(&self) -> Range<u64> {
        0..self.visits.len() as u64
    }

    fn visit(&self, number: u64) -> Option<Visit> {
        self.visits.get(usize::try_from(number).ok()?).cloned()
    }
}
