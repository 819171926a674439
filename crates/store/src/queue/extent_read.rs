//! The read of an extent: looks it up, reads index pages that are not in memory, reads the block.

use std::io;
use std::sync::Arc;

use super::Reply;
use super::engine::{Io, IoDone, TaskOutcome};
use super::request_state::Step;
use crate::buffer::Buffer;
use crate::error::StoreError;
use crate::extents::{Caching, Extent, ExtentEntry, IndexLookup, OpenExtentFile};
use crate::index::{MissingPage, PAGE_BYTES};

/// A read in progress.
pub(crate) struct ExtentRead {
    file: Arc<OpenExtentFile>,
    index: u64,
    caching: Caching,
    prefetch_index: bool,
    /// The entry of a block that did not match the index, and why.
    failed: Option<(ExtentEntry, &'static str)>,
    stage: ReadStage,
}

enum ReadStage {
    /// Another thread holds the state of the subfile: a task waits for it.
    Finding,
    LoadingPage(MissingPage),
    Reading(ExtentEntry),
}

impl ExtentRead {
    pub(crate) fn new(
        file: Arc<OpenExtentFile>,
        index: u64,
        caching: Caching,
        prefetch_index: bool,
    ) -> Self {
        let (failed, stage) = (None, ReadStage::Finding);
        Self { file, index, caching, prefetch_index, failed, stage }
    }

    /// The first step.
    pub(crate) fn begin(&mut self) -> Step {
        match OpenExtentFile::check_index(self.index) {
            Ok(()) => self.find(),
            Err(error) => Step::Done(Err(error)),
        }
    }

    /// Continues with the result of the last step.
    pub(crate) fn resume(&mut self, done: IoDone) -> Step {
        match (std::mem::replace(&mut self.stage, ReadStage::Finding), done) {
            (ReadStage::Finding, IoDone::Ran(Ok(_))) => self.find(),
            (ReadStage::Finding, IoDone::Ran(Err(error))) => Step::Done(Err(error)),
            (ReadStage::LoadingPage(wanted), IoDone::Moved(moved, buffer)) => {
                self.page_loaded(wanted, moved, &buffer)
            }
            (ReadStage::Reading(entry), IoDone::Moved(moved, buffer)) => {
                self.was_read(entry, moved, buffer)
            }
            _ => unreachable!("an engine returns the result of the operation that it was given"),
        }
    }

    /// Looks the extent up and continues with the result.
    fn find(&mut self) -> Step {
        let found = match self.file.try_state() {
            Some(mut state) => self.file.find_in(&mut state, self.index),
            None => {
                let file = self.file.clone();
                return Step::task(move || {
                    drop(file.state.lock());
                    Ok(TaskOutcome::Ready)
                });
            }
        };
        match found {
            Ok(IndexLookup::At(entry)) => self.read(entry),
            Ok(IndexLookup::Absent) => Step::Done(Ok(Reply::Extent(None))),
            Ok(IndexLookup::NeedsPage(wanted)) => self.load_page(wanted),
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn load_page(&mut self, wanted: MissingPage) -> Step {
        if self.prefetch_index {
            self.file.prefetch_index(wanted);
        }
        self.stage = ReadStage::LoadingPage(wanted);
        let buffer = self.file.pool.get(PAGE_BYTES);
        let (file, position) = (self.file.index_file.clone(), wanted.position());
        Step::Io(Io::Read { file, position, buffer, start: 0, len: PAGE_BYTES })
    }

    fn page_loaded(
        &mut self,
        wanted: MissingPage,
        moved: io::Result<usize>,
        buffer: &Buffer,
    ) -> Step {
        if let Err(error) = moved {
            return Step::Done(Err(self.file.context.io(error, "read the index of")));
        }
        let mut bytes = Box::new([0; PAGE_BYTES]);
        bytes.copy_from_slice(&buffer[..PAGE_BYTES]);
        let supplied = match self.file.try_state() {
            Some(mut state) => state.pages.supply(wanted, bytes),
            None => {
                let (file, index) = (self.file.clone(), self.index);
                return Step::task(move || {
                    file.supply(wanted, bytes, Some(index)).map(|()| TaskOutcome::Ready)
                });
            }
        };
        match supplied {
            Ok(_) => self.find(),
            Err(fault) => Step::Done(Err(self.file.fault(fault, Some(self.index)))),
        }
    }

    fn read(&mut self, entry: ExtentEntry) -> Step {
        match self.failed.take() {
            // No other thread has replaced it since: the block itself is damaged.
            Some((tried, why)) if tried == entry => {
                return Step::Done(Err(self.file.context.damaged(Some(self.index), why)));
            }
            _ => {}
        }
        if let Some(extent) = self.file.cached(entry, self.caching) {
            return Step::Done(Ok(Reply::Extent(Some(extent))));
        }
        self.stage = ReadStage::Reading(entry);
        let len = self.file.disk_bytes(entry.payload_bytes());
        let buffer = self.file.pool.get(len);
        let position = self.file.byte_position(entry.position);
        Step::Io(Io::Read { file: self.file.data.clone(), position, buffer, start: 0, len })
    }

    fn was_read(&mut self, entry: ExtentEntry, moved: io::Result<usize>, buffer: Buffer) -> Step {
        let read = match moved {
            Ok(read) => read,
            Err(error) => return Step::Done(Err(self.failure(error))),
        };
        let subfile = self.file.context.subfile;
        match Extent::verify(buffer, read, subfile, self.index, entry) {
            Ok(extent) => {
                self.file.cache_extent(extent.clone(), entry, self.caching);
                Step::Done(Ok(Reply::Extent(Some(extent))))
            }
            Err((_, why)) => {
                self.failed = Some((entry, why));
                self.find()
            }
        }
    }

    fn failure(&self, error: io::Error) -> StoreError {
        let context = &self.file.context;
        context.disk.io(error, format!("read extent {} of {}", self.index, context.subfile))
    }
}
