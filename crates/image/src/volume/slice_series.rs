//! Consecutive slices, some of them fetched ahead.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use pario::ProcessReport;

use super::Volume;
use crate::error::ImageError;
use crate::slice::{Interpolation, Plane, Slice};

/// Slices that are fetched at the same time.
const AHEAD: usize = 8;

type SliceResult = Result<(Slice, ProcessReport), ImageError>;

/// Iterator over slices in order, with the report of each; made by [`Volume::series`]. It fetches
/// some slices ahead and ends after an error.
pub struct SliceSeries {
    /// `None` after an error, which ends the fetching threads.
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

/// Fetches slices until the receiver is dropped.
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
