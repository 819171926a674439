//! Those who answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::question::{Answer, Body, Question, Reply};
use crate::error::{InputError, RecvError, SendError};
use crate::file_part::FilePart;
use crate::port::{InputPort, OutputPort, PortOptions};
use crate::route::Route;
use crate::sender::Sender;
use crate::space::Space;
use crate::token::Token;
use crate::wire::BULK_BYTES;

/// A port at which questions come in, each with a way to answer it. Whoever knows its name can
/// open an [`Asker`](crate::Asker) to it.
///
/// Several threads may receive from it. When it is dropped, every question that was not answered
/// fails.
///
/// ```
/// use std::time::Duration;
///
/// use pario_net::{AnswerPort, AskError, Asker, PortOptions, Space};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let space = Space::alone("home");
/// let lengths = AnswerPort::<String, usize>::new(&space, "lengths", PortOptions::default())?;
/// let server = std::thread::spawn(move || {
///     while let Ok(asked) = lengths.recv() {
///         match asked.question.as_str() {
///             "" => drop(asked.answer),
///             text => asked.answer.send(text.len()),
///         }
///     }
/// });
///
/// let asker = Asker::<String, usize>::open(&space, "lengths", Duration::from_secs(5))?;
/// let (one, other) = (asker.ask("four".into())?, asker.ask("seven..".into())?);
/// assert_eq!((other.wait()?, one.wait()?), (7, 4));
/// let error = asker.ask(String::new())?.wait().unwrap_err();
/// assert_eq!(error, AskError::Dropped { peer: "home".into() });
/// space.close();
/// server.join().unwrap();
/// # Ok(())
/// # }
/// ```
pub struct AnswerPort<Q: Token, A: Token> {
    input: InputPort<Question<Q, A>>,
}

/// A question that came, who asks, and the way to answer.
pub struct Asked<Q: Token, A: Token> {
    /// What is asked.
    pub question: Q,
    /// Who asks.
    pub from: Arc<Sender>,
    /// To answer with, now or later, from any thread.
    pub answer: Responder<A>,
}

/// A question, who asked it, and over which channel.
type Taken<Q, A> = (Question<Q, A>, Arc<Sender>, Option<Arc<Route>>);

impl<Q: Token, A: Token> AnswerPort<Q, A> {
    /// Makes a port for questions. Its credit bounds what is on the way to it; what was received
    /// and not answered is bounded by the askers, or by who receives.
    pub fn new(space: &Space, name: &str, options: PortOptions) -> Result<Self, InputError> {
        Ok(Self { input: space.input_with(name, options)? })
    }

    /// The next question; waits until there is one.
    ///
    /// [`RecvError::Lost`] says that a space which has asked is gone, after all that it has asked:
    /// answers to it are dropped from now on. A question that cannot be decoded is
    /// [`RecvError::Undecodable`], and refused.
    pub fn recv(&self) -> Result<Asked<Q, A>, RecvError> {
        let taken = self.input.recv_with(None, |question, run| {
            (question, self.input.sender(run), run.map(|run| run.route().clone()))
        })?;
        self.open(taken)
    }

    /// The next question, if one comes within this time.
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Asked<Q, A>, RecvError> {
        let taken = self.input.recv_with(Some(timeout), |question, run| {
            (question, self.input.sender(run), run.map(|run| run.route().clone()))
        })?;
        self.open(taken)
    }

    /// Questions that wait here.
    pub fn depth(&self) -> usize {
        self.input.depth()
    }

    /// The port's name.
    pub fn name(&self) -> &str {
        self.input.name()
    }

    fn open(&self, (question, from, route): Taken<Q, A>) -> Result<Asked<Q, A>, RecvError> {
        let answer = match question.reply {
            Reply::Here(responder) => responder,
            Reply::Channel(channel) => {
                let channel = route.and_then(|route| route.answers(channel));
                Responder::new(channel.map(OutputPort::remote), question.number)
            }
        };
        match question.body {
            Ok(question) => Ok(Asked { question, from, answer }),
            Err(error) => {
                let refused = Body::Refused(format!("it cannot read the question: {error}"));
                answer.finish(refused, OutputPort::send);
                let (port, peer) = (self.name().to_owned(), from.name.to_string());
                Err(RecvError::Undecodable { port, peer, error })
            }
        }
    }
}

impl<Q: Token, A: Token> fmt::Debug for AnswerPort<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnswerPort({:?})", self.name())
    }
}

impl<Q: Token + fmt::Debug, A: Token> fmt::Debug for Asked<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("question", &self.question)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// The way to answer one question. If it is dropped, the asker gets
/// [`AskError::Dropped`](crate::AskError::Dropped).
#[must_use = "a question that is not answered fails"]
pub struct Responder<A: Token> {
    /// Missing if there is nobody to answer, or no need any more.
    to: Option<OutputPort<Answer<A>>>,
    number: u64,
}

/// How an answer is sent.
type Sending<A> = fn(&OutputPort<Answer<A>>, Answer<A>) -> Result<(), SendError<Answer<A>>>;

impl<A: Token> Responder<A> {
    pub(crate) fn new(to: Option<OutputPort<Answer<A>>>, number: u64) -> Self {
        Self { to, number }
    }

    /// Answers. If the asker is gone, nothing happens.
    ///
    /// It never waits. As every token, the answer may be gathered with others until this thread
    /// waits for a token, but no longer than [`delay`](crate::Options::delay); a thread that waits
    /// for other things meanwhile should use [`send_now`](Self::send_now).
    ///
    /// An asker that does not read makes answers wait here. Who serves strangers looks at
    /// [`queued_bytes`](Self::queued_bytes) before it answers, and cuts off who does not read.
    pub fn send(self, answer: A) {
        self.finish(Body::Given(answer), OutputPort::send);
    }

    /// Answers, and sends what was gathered for the asker's space.
    pub fn send_now(self, answer: A) {
        self.finish(Body::Given(answer), OutputPort::send_at_once);
    }

    /// Whether parts of files reach the asker without being copied here.
    pub fn takes_files(&self) -> bool {
        let channel = self.to.as_ref().and_then(OutputPort::channel);
        channel.is_some_and(|channel| channel.link().is_socket())
    }

    /// Answers with a part of a file in place of the first [`Bulk`](crate::Bulk) of the answer that
    /// is empty, and sends what was gathered for the asker's space. The part goes from the page
    /// cache to the socket; if the asker is slow to take it, some of that happens later, by whoever
    /// polls, which should not have to wait for a disk.
    ///
    /// # Panics
    /// If the asker does not [take files](Self::takes_files), or the part is of less than
    /// [`BULK_BYTES`](crate::wire::BULK_BYTES).
    pub fn send_file(self, answer: A, part: FilePart) {
        assert!(self.takes_files() && part.len() >= BULK_BYTES, "only what is long and goes far");
        self.finish(Body::File(answer, part), OutputPort::send_at_once);
    }

    /// How many bytes wait here for the asker's space to read.
    pub fn queued_bytes(&self) -> usize {
        let channel = self.to.as_ref().and_then(OutputPort::channel);
        channel.map_or(0, |channel| channel.link().out.lock().waiting_bytes())
    }

    /// Ends the link to the asker's space, which is kept among the refusals with this reason.
    pub fn cut_off(mut self, reason: &str) {
        let to = self.to.take();
        if let Some(channel) = to.as_ref().and_then(OutputPort::channel) {
            channel.link().cut_off(reason);
        }
    }

    /// Says nothing, because the asker knows already.
    pub(crate) fn discard(mut self) {
        self.to = None;
    }

    fn finish(mut self, body: Body<A>, send: Sending<A>) {
        let Some(to) = self.to.take() else { return };
        let number = self.number;
        // Without a limit of credit, every other error means that the asker is gone.
        if let Err(error @ (SendError::TooLarge { .. } | SendError::Encode { .. })) =
            send(&to, Answer { number, body })
        {
            let body = Body::Refused(format!("the answer cannot be sent: {error}"));
            let _ = send(&to, Answer { number, body });
        }
    }
}

impl<A: Token> Drop for Responder<A> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            let _ = to.send(Answer { number: self.number, body: Body::Dropped });
        }
    }
}

impl<A: Token> fmt::Debug for Responder<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Responder({})", self.number)
    }
}
