//! The memory of a job: the ranks meet once, at the first of these calls.

use pario_team::{
    Array, Callback, CallbackCall, CallbackRequest, Messaging, MultiMachine, Mutexes, Number,
    RawArray, Reduction, Segments, Team, TeamOptions,
};

use super::{Job, machines, registry};
use crate::cluster::Cluster;
use crate::error::Error;

impl Job {
    /// Waits until all ranks have called this. All ranks then see what each has put into memory
    /// before.
    ///
    /// ```
    /// # let job = pario::Job::new("barrier", 1, 0)?;
    /// job.barrier()?;
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn barrier(&self) -> Result<(), Error> {
        Ok(self.team()?.barrier()?)
    }

    /// Copies the bytes of one rank to all. All ranks give the same number of bytes.
    ///
    /// ```
    /// # let job = pario::Job::new("broadcast", 1, 0)?;
    /// let mut steps = if job.rank() == 0 { [7] } else { [0] };
    /// job.broadcast(0, &mut steps)?;
    /// assert_eq!(steps, [7]);
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), Error> {
        Ok(self.team()?.broadcast(root, bytes)?)
    }

    /// Returns the bytes of each rank; their numbers may differ. Collective.
    ///
    /// ```
    /// # let job = pario::Job::new("gather", 1, 0)?;
    /// let hosts = job.gather(b"node17")?;
    /// assert_eq!(hosts[job.rank() as usize], b"node17");
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.team()?.gather(bytes)?)
    }

    /// Reduces the numbers of all ranks, index by index; all ranks get the result. All give the
    /// same number of them.
    ///
    /// ```
    /// use pario::memory::Reduction;
    ///
    /// # let job = pario::Job::new("reduce", 1, 0)?;
    /// let mut residuals = [1.5, 2.5];
    /// job.reduce(Reduction::Largest, &mut residuals)?;
    /// assert_eq!(residuals, [1.5, 2.5]);
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn reduce<T: Number>(&self, reduction: Reduction, numbers: &mut [T]) -> Result<(), Error> {
        Ok(self.team()?.reduce(reduction, numbers)?)
    }

    /// Allocates memory that all ranks use: this many bytes of this rank. The ranks may give
    /// different numbers. Collective.
    ///
    /// ```
    /// # let job = pario::Job::new("segments", 1, 0)?;
    /// let hits = job.segments(8)?; // eight bytes of each rank
    /// hits.fetch_add(1_u64, 0, 0)?; // rank 0 does nothing for it
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn segments(&self, bytes: usize) -> Result<Segments, Error> {
        Ok(self.team()?.segments(bytes)?)
    }

    /// Creates an array of numbers over the memory of all ranks. All give the same length.
    ///
    /// ```
    /// # let job = pario::Job::new("array", 1, 0)?;
    /// let hits = job.array::<u64>(1_000_000)?;
    /// hits.accumulate(&[1], 7)?;
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn array<T: Number>(&self, len: u64) -> Result<Array<T>, Error> {
        Ok(self.team()?.array(len)?)
    }

    /// Creates an array of elements of any size over the memory of all ranks. All give the same
    /// numbers.
    pub fn raw_array(&self, len: u64, element_bytes: usize) -> Result<RawArray, Error> {
        Ok(self.team()?.raw_array(len, element_bytes)?)
    }

    /// Creates mutexes: this many of this rank. The ranks may give different numbers. Collective.
    ///
    /// ```
    /// # let job = pario::Job::new("mutexes", 1, 0)?;
    /// let mutexes = job.mutexes(1)?;
    /// let held = mutexes.lock(0, 0)?; // the first mutex of rank 0
    /// # drop(held);
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn mutexes(&self, count: u32) -> Result<Mutexes, Error> {
        Ok(self.team()?.mutexes(count)?)
    }

    /// Starts messages between ranks, and groups of ranks. Collective.
    ///
    /// ```
    /// # let job = pario::Job::new("messaging", 1, 0)?;
    /// let messaging = job.messaging()?;
    /// messaging.send(b"three steps", 0, 7)?; // to rank 0, with tag 7
    /// assert_eq!(messaging.receive(Some(0), 7)?.bytes, b"three steps");
    /// let group = messaging.group(&[0])?; // the ranks of the group call this
    /// group.barrier()?;
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn messaging(&self) -> Result<Messaging, Error> {
        Ok(self.team()?.messaging()?)
    }

    /// Registers a function, which then runs at the machine of the rank at which it is called. It
    /// returns the bytes of its result, or an error text. Collective.
    ///
    /// ```
    /// # let job = pario::Job::new("callback", 1, 0)?;
    /// let reversed = job.callback(|call| Ok(call.data.iter().rev().copied().collect()))?;
    /// assert_eq!(reversed.call(b"", b"abc", 0)?, b"cba");
    /// # Ok::<(), pario::Error>(())
    /// ```
    pub fn callback(
        &self,
        function: impl Fn(&CallbackCall<'_>) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Result<Callback, Error> {
        Ok(self.team()?.callback(function)?)
    }

    /// Registers a function that may reply later, from another thread. Collective.
    pub fn callback_later(
        &self,
        function: impl Fn(CallbackRequest) + Send + Sync + 'static,
    ) -> Result<Callback, Error> {
        Ok(self.team()?.callback_later(function)?)
    }

    /// Returns the team of the job, for crates that know teams and no jobs. The first call of any
    /// rank meets the others: the ranks of one machine find each other by themselves. If the job
    /// spans machines, these meet
    /// - as [`JobOptions::rendezvous`](crate::JobOptions::rendezvous) says;
    /// - otherwise at the machine that PARIO_TEAM names, by its address (`10.0.0.1`), if the launcher
    ///   names the job, or by its address and a port that is free there (`10.0.0.1:7777`); PARIO_KEY
    ///   names the file with the key that all have;
    /// - otherwise with the help of a node: of the first cluster of which the job uses files, or of
    ///   the cluster that PARIO_CLUSTER names. PARIO_TEAM is `cluster` where the launcher does not
    ///   say that there are several machines.
    pub fn team(&self) -> Result<Team, Error> {
        if let Some(team) = &*self.state.team.lock() {
            return Ok(team.clone());
        }
        let _meeting = self.state.meeting.lock();
        // Another thread may have met the others before.
        if let Some(team) = &*self.state.team.lock() {
            return Ok(team.clone());
        }
        let defaults = TeamOptions::default();
        let options = TeamOptions {
            timeout: self.state.options.timeout.unwrap_or(defaults.timeout),
            multi_machine: self.multi_machine()?,
        };
        let team = Team::meet_with(self.name(), self.size(), self.rank(), &options)?;
        registry::note_team(&self.state.member, &team);
        *self.state.team.lock() = Some(team.clone());
        Ok(team)
    }

    /// Leaves the memory of the job. The other ranks see that this rank has left when everything
    /// that was made from the memory is dropped here, too. The next use of the memory meets the
    /// ranks again. Dropping the last clone of the job does the same.
    pub fn leave_memory(&self) {
        self.state.memory_pool.clear();
        // A machine leader waits here until the others have left, with no lock held.
        let team = self.state.team.lock().take();
        if let Some(team) = team {
            self.state.lost_ranks.lock().extend(team.lost_ranks());
        }
    }

    /// How the machines of the job find each other; `None` if all ranks run on one machine.
    fn multi_machine(&self) -> Result<Option<MultiMachine>, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let options = &self.state.options;
        let found = match &options.rendezvous {
            Some(rendezvous) => {
                let machine = machines::name_of_machine(variable);
                Some(MultiMachine { rendezvous: rendezvous.clone(), machine })
            }
            None => {
                let broker = self.state.broker.lock().upgrade().map(|shared| Cluster { shared });
                let is_named = options.is_named_by_node;
                machines::multi_machine((self.name(), is_named), variable, broker.as_ref())?
            }
        };
        Ok(found.map(|found| match &options.machine {
            Some(machine) => found.called(machine),
            None => found,
        }))
    }
}
