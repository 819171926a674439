//! One processing call at all nodes that hold a part of the file.

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

/// Replies of one node that wait until the caller has consumed the earlier ones.
const QUEUED_REPLIES: usize = 2;

/// A node that takes part.
struct Participant {
    name: String,
    connection: Arc<Connection>,
}

type NodeReply = Result<(Reply, Vec<Bulk>), Error>;

/// Runs the call, and passes each result to `consume`.
pub fn run(
    mut call: ProcessCall<'_>,
    mut consume: impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
) -> Result<ProcessReport, Error> {
    let parameters = match std::mem::replace(&mut call.parameters, Ok(Vec::new())) {
        Ok(parameters) => Bulk::from(parameters),
        Err(why) => {
            let text =
                format!("operation {:?}: its parameters cannot be sent: {why}", call.operation);
            return Err(Error::invalid(text));
        }
    };
    if let Some(target) = call.target {
        target.note_work();
    }
    let mut is_begun = false;
    let done = match attempt(&mut call, &parameters, &mut consume, &mut is_begun) {
        Err(Error::Failure(failure)) if failure.needs_renewal() && !is_begun => {
            call.file.renew_rights()?;
            if let Some(target) = call.target {
                target.renew_rights()?;
            }
            attempt(&mut call, &parameters, &mut consume, &mut is_begun)
        }
        other => other,
    };
    done.map_err(|error| error.of_file(call.file.path().as_str()))
}

/// One attempt. Sets `is_begun` when a node has replied with anything but a failure.
fn attempt(
    call: &mut ProcessCall<'_>,
    parameters: &Bulk,
    consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    is_begun: &mut bool,
) -> Result<ProcessReport, Error> {
    let participants = participants(call)?;
    let shared = call.file.cluster_shared();
    let number = shared.calls.fetch_add(1, Ordering::Relaxed);
    let mut collector = ReplyCollector {
        number,
        report: ProcessReport::new(participants.len()),
        participants: &participants,
        is_begun: false,
    };
    let result = collector.collect(call, parameters, consume);
    *is_begun = collector.is_begun;
    if result.is_err() {
        stop_at_nodes(&participants, number);
    }
    result.map(|()| collector.report)
}

/// Stops the call at all nodes; has no effect where it is over.
fn stop_at_nodes(participants: &[Participant], call: u64) {
    for participant in participants {
        participant.connection.tell(Request::Process(ProcessRequest::Stop { call }));
    }
}

/// The nodes that hold selected extents.
fn participants(call: &ProcessCall<'_>) -> Result<Vec<Participant>, Error> {
    let shared = call.file.cluster_shared();
    let parts = call.file.parts();
    let mut nodes = BTreeMap::new();
    let is_selected = |subfile| match &call.extents {
        ExtentSelection::All => true,
        ExtentSelection::These(places) => places.iter().any(|place| place.subfile == subfile),
    };
    for part in parts.iter().filter(|part| is_selected(part.subfile)) {
        nodes.insert(shared.node_of(part.disk)?, ());
    }
    let map = shared.map();
    let participant = |node: usize| Participant {
        name: map.nodes.get(node).map_or_else(String::new, |node| node.name.clone()),
        connection: shared.node(node),
    };
    Ok(nodes.into_keys().map(participant).collect())
}

/// Collects the replies of all nodes.
struct ReplyCollector<'p> {
    number: u64,
    report: ProcessReport,
    participants: &'p [Participant],
    is_begun: bool,
}

impl ReplyCollector<'_> {
    fn collect(
        &mut self,
        call: &mut ProcessCall<'_>,
        parameters: &Bulk,
        consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let request = self.request(call);
        if let [only] = self.participants {
            return self.collect_one(only, request, call, parameters, consume);
        }
        let begun: Vec<Result<Waiting, Error>> = self
            .participants
            .iter()
            .map(|node| node.connection.start(request.clone(), vec![parameters.clone()]))
            .collect();
        // Most calls are over with the first reply: no thread is started for a second one.
        let mut unfinished = Vec::new();
        for (node, waiting) in begun.into_iter().enumerate() {
            let answered = waiting.and_then(Waiting::wait);
            if !self.take(call, node, answered, consume)? {
                unfinished.push(node);
            }
        }
        if unfinished.is_empty() {
            return Ok(());
        }
        let (participants, number) = (self.participants, self.number);
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(QUEUED_REPLIES * unfinished.len());
            for &node in &unfinished {
                let (sender, participant) = (sender.clone(), &participants[node]);
                scope.spawn(move || fetch(participant, node, number, &sender));
            }
            drop(sender);
            let result = self.receive(call, unfinished.len(), &receiver, consume);
            if result.is_err() {
                // The fetching threads end: their channel is closed and their call stopped.
                drop(receiver);
                stop_at_nodes(participants, number);
            }
            result
        })
    }

    /// Collects the replies of one node. Requests the next one before it consumes the last.
    fn collect_one(
        &mut self,
        node: &Participant,
        request: Request,
        call: &mut ProcessCall<'_>,
        parameters: &Bulk,
        consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut asked = node.connection.start(request, vec![parameters.clone()]);
        loop {
            let answered = asked.and_then(Waiting::wait);
            if is_last(&answered) {
                return self.take(call, 0, answered, consume).map(drop);
            }
            asked = node.connection.start(more_of(self.number), Vec::new());
            self.take(call, 0, answered, consume)?;
        }
    }

    fn receive(
        &mut self,
        call: &mut ProcessCall<'_>,
        mut unfinished: usize,
        answers: &Receiver<(usize, NodeReply)>,
        consume: &mut impl FnMut(Option<ExtentPlacement>, Bytes) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while unfinished > 0 {
            let Ok((node, answered)) = answers.recv() else {
                return Err(strange(""));
            };
            if self.take(call, node, answered, consume)? {
                unfinished -= 1;
            }
        }
        Ok(())
    }

    /// Takes a reply. Returns whether it is the last of its node.
    fn take(
        &mut self,
        call: &mut ProcessCall<'_>,
        node: usize,
        answered: NodeReply,
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
        if call.is_traced {
            self.note_spans(node, &data, spans, now_ns);
        }
        for (place, result) in results.into_iter().zip(data) {
            consume(place, result.into_bytes())?;
        }
        if let Some(watch) = &mut call.watch {
            watch(&self.report);
        }
        if call.stopper.is_stopped() && !is_over {
            return Err(Error::Stopped { operation: call.operation.clone() });
        }
        Ok(is_over)
    }

    /// Records the trace of a node and the transfer of its reply. The clocks of other machines are
    /// assumed to agree at the arrival of a reply.
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

    fn request(&self, call: &ProcessCall<'_>) -> Request {
        let target = call
            .target
            .map(|target| ProcessTarget { grant: target.grant(), parts: target.parts().to_vec() });
        let work = ProcessWork {
            grant: call.file.grant(),
            parts: call.file.parts().to_vec(),
            extents: call.extents.clone(),
            operation: call.operation.clone(),
            target,
            is_traced: call.is_traced,
        };
        Request::Process(ProcessRequest::Begin { call: self.number, work })
    }
}

/// Fetches the replies of a node until the last one, or until the channel is closed.
fn fetch(
    participant: &Participant,
    node: usize,
    call: u64,
    answers: &SyncSender<(usize, NodeReply)>,
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

/// Whether no reply follows this one.
fn is_last(answered: &NodeReply) -> bool {
    !matches!(answered, Ok((Reply::Processed(processed), _)) if !processed.is_over)
}
