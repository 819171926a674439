//! Slices one after the other, the next ones fetched ahead.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use pario::Report;

use super::Volume;
use crate::error::ImageError;
use crate::slice::{Interpolation, Plane, Slice};

/// So many slices are under way at once.
const AHEAD: usize = 8;

type SliceResult = Result<(Slice, Report), ImageError>;

/// Slices in order, with what each has cost; made by [`Volume::series`]. Some of the next are fetched
/// ahead. After an error there are no more.
pub struct SliceSeries {
    /// Missing when nobody fetches any more.
    arrived: Option<Receiver<(usize, SliceResult)>>,
    early: BTreeMap<usize, SliceResult>,
    next: usize,
    count: usize,
}

impl SliceSeries {
    pub(super) fn new(
        volume: Volume,
        planes: VecDeque<Plane>,
        interpolation: Interpolation,
    ) -> Self {
        let count = planes.len();
        let waiting = Arc::new(Mutex::new(planes.into_iter().enumerate()));
        let (sender, receiver) = sync_channel(1);
        for _ in 0..AHEAD.min(count) {
            let (volume, waiting, sender) = (volume.clone(), waiting.clone(), sender.clone());
            std::thread::spawn(move || fetch(&volume, interpolation, &waiting, &sender));
        }
        Self { arrived: Some(receiver), early: BTreeMap::new(), next: 0, count }
    }
}

/// Fetches one slice after the other, as long as somebody takes them.
fn fetch(
    volume: &Volume,
    interpolation: Interpolation,
    waiting: &Mutex<impl Iterator<Item = (usize, Plane)>>,
    sender: &SyncSender<(usize, SliceResult)>,
) {
    loop {
        let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
        let Some((number, plane)) = next else { return };
        let taken = volume.slice_of(&plane, interpolation, &[]);
        if sender.send((number, taken)).is_err() {
            return;
        }
    }
}

impl Iterator for SliceSeries {
    type Item = SliceResult;

    fn next(&mut self) -> Option<SliceResult> {
        if self.next == self.count {
            return None;
        }
        let taken = loop {
            if let Some(taken) = self.early.remove(&self.next) {
                break taken;
            }
            let (number, taken) = self.arrived.as_ref()?.recv().ok()?;
            self.early.insert(number, taken);
        };
        self.next += 1;
        if taken.is_err() {
            self.arrived = None;
            self.next = self.count;
        }
        Some(taken)
    }
}
