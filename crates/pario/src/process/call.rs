//! One call at all nodes that hold a part of the file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;
use pario_net::Bulk;
use pario_net::clock::monotonic_ns;
use pario_proto::{
    ExtentPlacement, ExtentSelection, ProcessRequest, ProcessTarget, ProcessUpdate, ProcessWork,
    Reply, Request, WorkSpan,
};

use super::{ProcessCall, ProcessReport};
use crate::connection::{Connection, Waiting, strange};
use crate::error::Error;

/// Answers of one node that wait until the caller has looked at those before.
const WAITING_ANSWERS: usize = 2;

/// A node that takes part.
struct Participant {
    name: String,
    connection: Arc<Connection>,
}

type Answered = Result<(Reply, Vec<Bulk>), Error>;

/// Does the work, and gives each result to `consume`.
pub fn run(
    mut work: ProcessCall<'_>,
    mut consume: impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
) -> Result<ProcessReport, Error> {
    let parameters = match std::mem::replace(&mut work.parameters, Ok(Vec::new())) {
        Ok(parameters) => Bulk::from(parameters),
        Err(why) => {
            let text =
                format!("operation {:?}: its parameters cannot be sent: {why}", work.operation);
            return Err(Error::invalid(text));
        }
    };
    if let Some(target) = work.target {
        target.note_work();
    }
    let mut is_begun = false;
    let done = match attempt(&mut work, &parameters, &mut consume, &mut is_begun) {
        Err(Error::Failure(failure)) if failure.needs_renewal() && !is_begun => {
            work.file.renew_rights()?;
            if let Some(target) = work.target {
                target.renew_rights()?;
            }
            attempt(&mut work, &parameters, &mut consume, &mut is_begun)
        }
        other => other,
    };
    done.map_err(|error| error.of_file(work.file.path().as_str()))
}

/// One attempt. `is_begun` is set when a node has answered something else than a failure.
fn attempt(
    work: &mut ProcessCall<'_>,
    parameters: &Bulk,
    consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    is_begun: &mut bool,
) -> Result<ProcessReport, Error> {
    let participants = participants(work)?;
    let shared = work.file.cluster_shared();
    let number = shared.calls.fetch_add(1, Ordering::Relaxed);
    let mut desk = Desk {
        number,
        report: ProcessReport::new(participants.len()),
        participants: &participants,
        is_begun: false,
    };
    let result = desk.serve(work, parameters, consume);
    *is_begun = desk.is_begun;
    if result.is_err() {
        give_up(&participants, number);
    }
    result.map(|()| desk.report)
}

/// Tells the nodes that nobody wants more of a call; for those where it is over that means nothing.
fn give_up(participants: &[Participant], call: u64) {
    for participant in participants {
        participant.connection.tell(Request::Process(ProcessRequest::Stop { call }));
    }
}

/// The nodes that hold a part of the file, or of the extents that are meant.
fn participants(work: &ProcessCall<'_>) -> Result<Vec<Participant>, Error> {
    let shared = work.file.cluster_shared();
    let parts = work.file.parts();
    let mut nodes = BTreeMap::new();
    let is_meant = |subfile| match &work.extents {
        ExtentSelection::All => true,
        ExtentSelection::These(places) => places.iter().any(|place| place.subfile == subfile),
    };
    for part in parts.iter().filter(|part| is_meant(part.subfile)) {
        nodes.insert(shared.node_of(part.disk)?, ());
    }
    let map = shared.map();
    let participant = |node: usize| Participant {
        name: map.nodes.get(node).map_or_else(String::new, |node| node.name.clone()),
        connection: shared.node(node),
    };
    Ok(nodes.into_keys().map(participant).collect())
}

/// Where the answers of all nodes arrive.
struct Desk<'p> {
    number: u64,
    report: ProcessReport,
    participants: &'p [Participant],
    is_begun: bool,
}

impl Desk<'_> {
    fn serve(
        &mut self,
        work: &mut ProcessCall<'_>,
        parameters: &Bulk,
        consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let request = self.request(work);
        if let [only] = self.participants {
            return self.serve_one(only, request, work, parameters, consume);
        }
        let begun: Vec<Result<Waiting, Error>> = self
            .participants
            .iter()
            .map(|node| node.connection.start(request.clone(), vec![parameters.clone()]))
            .collect();
        // Most work is over with the first answer, so nobody is sent to wait for a second one.
        let mut unfinished = Vec::new();
        for (node, waiting) in begun.into_iter().enumerate() {
            let answered = waiting.and_then(Waiting::wait);
            if !self.take(work, node, answered, consume)? {
                unfinished.push(node);
            }
        }
        if unfinished.is_empty() {
            return Ok(());
        }
        let (participants, number) = (self.participants, self.number);
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(WAITING_ANSWERS * unfinished.len());
            for &node in &unfinished {
                let (sender, participant) = (sender.clone(), &participants[node]);
                scope.spawn(move || fetch(participant, node, number, &sender));
            }
            drop(sender);
            let result = self.listen(work, unfinished.len(), &receiver, consume);
            if result.is_err() {
                // Whoever fetches finds nobody who listens, and its call given up.
                drop(receiver);
                give_up(participants, number);
            }
            result
        })
    }

    /// The same with one node: the next answer is asked for before one is looked at.
    fn serve_one(
        &mut self,
        node: &Participant,
        request: Request,
        work: &mut ProcessCall<'_>,
        parameters: &Bulk,
        consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut asked = node.connection.start(request, vec![parameters.clone()]);
        loop {
            let answered = asked.and_then(Waiting::wait);
            if is_last(&answered) {
                return self.take(work, 0, answered, consume).map(drop);
            }
            asked = node.connection.start(more_of(self.number), Vec::new());
            self.take(work, 0, answered, consume)?;
        }
    }

    fn listen(
        &mut self,
        work: &mut ProcessCall<'_>,
        mut unfinished: usize,
        answers: &Receiver<(usize, Answered)>,
        consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while unfinished > 0 {
            let Ok((node, answered)) = answers.recv() else {
                return Err(strange(""));
            };
            if self.take(work, node, answered, consume)? {
                unfinished -= 1;
            }
        }
        Ok(())
    }

    /// Takes an answer; whether it is the last of its node.
    fn take(
        &mut self,
        work: &mut ProcessCall<'_>,
        node: usize,
        answered: Answered,
        consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let name = &self.participants[node].name;
        let (reply, data) = answered?;
        let Reply::Processed(processed) = reply else { return Err(strange(name)) };
        let ProcessUpdate { results, is_over, progress, spans, now_ns } = *processed;
        if results.len() != data.len() {
            return Err(strange(name));
        }
        self.is_begun = true;
        self.report.note(node, progress);
        if work.is_traced {
            self.note_spans(node, &data, spans, now_ns);
        }
        for (place, result) in results.into_iter().zip(data) {
            consume(place, result.into_bytes())?;
        }
        if let Some(watch) = &mut work.watch {
            watch(&self.report);
        }
        if work.stopper.is_stopped() && !is_over {
            return Err(Error::Stopped { operation: work.operation.clone() });
        }
        Ok(is_over)
    }

    /// What a node has noted, and the way of its answer. The clocks of nodes on other machines are
    /// taken to agree when an answer comes.
    fn note_spans(&mut self, node: usize, data: &[Bulk], spans: Vec<WorkSpan>, now_ns: u64) {
        const SAME_CLOCK_NS: i64 = 1_000_000_000;
        let arrived_ns = monotonic_ns();
        let late_ns = i64::try_from(arrived_ns).unwrap_or(i64::MAX)
            - i64::try_from(now_ns).unwrap_or(i64::MAX);
        let ahead_ns = if (0..SAME_CLOCK_NS).contains(&late_ns) { 0 } else { -late_ns };
        let name = &self.participants[node].name;
        self.report.note_spans(name, self.number, ahead_ns, spans);
        let bytes: usize = data.iter().map(|result| result.len()).sum();
        let sent_ns = now_ns.saturating_add_signed(-ahead_ns);
        self.report.note_answer(name, self.number, bytes, (sent_ns, arrived_ns));
    }

    fn request(&self, work: &ProcessCall<'_>) -> Request {
        let target = work
            .target
            .map(|target| ProcessTarget { grant: target.grant(), parts: target.parts().to_vec() });
        let work = ProcessWork {
            grant: work.file.grant(),
            parts: work.file.parts().to_vec(),
            extents: work.extents.clone(),
            operation: work.operation.clone(),
            target,
            is_traced: work.is_traced,
        };
        Request::Process(ProcessRequest::Begin { call: self.number, work })
    }
}

/// Fetches answers of a node until its last one, or until nobody listens.
fn fetch(
    participant: &Participant,
    node: usize,
    call: u64,
    answers: &SyncSender<(usize, Answered)>,
) {
    loop {
        let asked = participant.connection.start(more_of(call), Vec::new());
        let answered = asked.and_then(Waiting::wait);
        let is_last = is_last(&answered);
        if answers.send((node, answered)).is_err() || is_last {
            return;
        }
    }
}

fn more_of(call: u64) -> Request {
    Request::Process(ProcessRequest::More { call })
}

/// Whether nothing comes after an answer.
fn is_last(answered: &Answered) -> bool {
    !matches!(answered, Ok((Reply::Processed(processed), _)) if !processed.is_over)
}
