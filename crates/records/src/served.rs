//! Parts of this machine, for ranks of others: what they order is done by threads of the process in
//! which the data server of the machine runs.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Weak};

use pario_net::{Bulk, BulkBuffer};
use pario_team::{Callback, CallbackRequest, TeamError, add_numbers};
use rustix::io::ReadWriteFlags;

use super::adding::{CLASS_BYTES, beginning_before};
use super::error::RecordError;
use super::far::CHUNK_BYTES;
use super::file::Shared;
use super::order::{Addend, Order, Target, Work};
use super::owner::Owner;
use super::search::different_versions;
use super::workers::Crew;

/// What is needed to serve. It has no part in the team, which could otherwise not be left.
struct Served {
    owners: Arc<[Owner]>,
    file: Weak<Shared>,
}

/// Lets the data servers of all machines serve the parts there, together with all others.
pub fn serve(shared: &Arc<Shared>) -> Result<Callback, TeamError> {
    let owners = shared.owners.clone();
    let served = Arc::new(Served { owners, file: Arc::downgrade(shared) });
    shared.team.callback_later(move |asked| served.clone().take(asked))
}

impl Served {
    /// Takes an order. The data server goes on: whatever may wait is done by others. Those who add
    /// wait for mutexes, and who has one may need what others read and write.
    fn take(self: Arc<Self>, asked: CallbackRequest) {
        let order = Order::of_bytes(asked.call().header).filter(|order| order.len <= CHUNK_BYTES);
        let Some(order) = order else {
            return asked.reply(Err(different_versions().to_sentence()));
        };
        let crew = match order.work {
            Work::Add(..) => Crew::Adding,
            Work::Read if self.is_in_memory(&order) => return self.send(asked, &order),
            Work::Read | Work::Write => Crew::Served,
        };
        crew.submit(move || self.perform(asked, &order));
    }

    /// Answers with bytes that are in memory, from where they are if that can be.
    fn send(&self, asked: CallbackRequest, order: &Order) {
        if !asked.can_reply_with_file(order.len) {
            return self.perform(asked, order);
        }
        let file = self.owner(order).and_then(|owner| {
            owner.check_len(order.at + order.len as u64)?;
            owner.file()
        });
        match file {
            Ok(file) => asked.reply_with_file(file.clone(), order.at, order.len),
            Err(error) => asked.reply(Err(error.to_sentence())),
        }
    }

    fn perform(&self, asked: CallbackRequest, order: &Order) {
        let done = match order.work {
            Work::Read => self.read(order),
            Work::Write => self.write(order, asked.call().data).map(|()| Bulk::new()),
            Work::Add(addend, target) => {
                let Some(shared) = self.file.upgrade() else {
                    return asked.reply(Err("it was dropped".to_owned()));
                };
                let added = self.add(&shared, order, addend, target, asked.call().data);
                added.map(|()| Bulk::new())
            }
        };
        asked.reply(done.map_err(|error| error.to_sentence()));
    }

    fn owner(&self, order: &Order) -> Result<&Owner, RecordError> {
        self.owners.get(order.part as usize).ok_or_else(different_versions)
    }

    /// Whether bytes can be had without waiting for a disk, as far as a look at some of them tells.
    fn is_in_memory(&self, order: &Order) -> bool {
        let Ok(file) = self.owner(order).and_then(Owner::file) else { return true };
        let last = order.at + (order.len as u64).saturating_sub(1);
        [order.at, order.at + order.len as u64 / 2, last].into_iter().all(|at| is_cached(file, at))
    }

    fn read(&self, order: &Order) -> Result<Bulk, RecordError> {
        let mut bytes = BulkBuffer::new(order.len);
        self.owner(order)?.read_at(&mut bytes, order.at)?;
        Ok(bytes.freeze())
    }

    fn write(&self, order: &Order, bytes: &[u8]) -> Result<(), RecordError> {
        if bytes.len() != order.len {
            return Err(different_versions());
        }
        self.owner(order)?.write_at(bytes, order.at)
    }

    /// Adds numbers, stretch by stretch, as ranks of this machine do.
    fn add(
        &self,
        shared: &Shared,
        order: &Order,
        addend: Addend,
        target: Target,
        numbers: &[u8],
    ) -> Result<(), RecordError> {
        let owner = self.owner(order)?;
        let Addend { kind, each, factor } = addend;
        let is_whole = numbers.len() == order.len && order.len.is_multiple_of(each);
        if !is_whole {
            return Err(different_versions());
        }
        let mut bytes = Vec::new();
        let mut done = 0;
        while done < order.len {
            let begin = target.in_block + done as u64;
            let now = beginning_before(begin, CLASS_BYTES, each) * each;
            let now = &numbers[done..order.len.min(done + now)];
            let at = order.at + done as u64;
            bytes.resize(now.len(), 0);
            let unlock = shared.lock(target.record, order.part as usize, begin)?;
            owner.read_at(&mut bytes, at)?;
            if !add_numbers(kind, &factor, now, &mut bytes) {
                return Err(different_versions());
            }
            owner.write_at(&bytes, at)?;
            drop(unlock);
            done += now.len();
        }
        Ok(())
    }
}

/// Whether a byte of a file can be read at once.
fn is_cached(file: &File, at: u64) -> bool {
    let mut byte = [0];
    let mut bytes = [std::io::IoSliceMut::new(&mut byte)];
    rustix::io::preadv2(file.as_fd(), &mut bytes, at, ReadWriteFlags::NOWAIT).is_ok()
}
