//! A started request: one type for everything that a caller starts now and waits for later.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A started request, with a result of type `T` or an error of type `E`.
///
/// Wait for the result with [`wait`](Self::wait), ask with [`is_done`](Self::is_done) whether it is
/// there, or await the request: it is a [`Future`] for any executor. A request that was complete
/// when it was started, such as a copy within the memory of one machine, costs no allocation.
///
/// *Drop.* Dropping a `Pending` blocks until the request is over and discards the result. So no
/// request ends halfway, and none touches memory of the caller after the drop. The one exception is
/// a request that only waits, such as the wait for a lock: the drop withdraws it.
///
/// ```
/// use pario_net::Pending;
///
/// let pending: Pending<u32, String> = Pending::ready(Ok(7));
/// assert!(pending.is_done());
/// assert_eq!(pending.wait(), Ok(7));
/// ```
#[must_use = "dropping a started request waits for it and discards its result; call `wait`"]
pub struct Pending<T, E>(PendingState<T, E>);

enum PendingState<T, E> {
    /// The result is there.
    Ready(Result<T, E>),
    /// The request is under way.
    Started(Box<dyn StartedRequest<T, E>>),
    /// The caller has the result.
    Taken,
}

/// A request under way, as its implementation sees it.
pub trait StartedRequest<T, E>: Send {
    /// Whether the result is there, so that `wait` does not block.
    fn is_done(&self) -> bool;

    /// Waits for the result.
    fn wait(self: Box<Self>) -> Result<T, E>;

    /// Returns the result if it is there; otherwise wakes the task when it is. After a result it is
    /// not called again.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T, E>>;

    /// Ends the request as early as it can be ended. Returns none if it had no effect.
    fn cancel(self: Box<Self>) -> Result<Option<T>, E> {
        self.wait().map(Some)
    }

    /// Ends the request for a caller that does not want the result.
    fn abandon(self: Box<Self>) {
        // The caller has given up the result.
        let _ = self.wait();
    }
}

impl<T, E> Pending<T, E> {
    /// A request that is over.
    #[inline]
    pub fn ready(result: Result<T, E>) -> Self {
        Self(PendingState::Ready(result))
    }

    /// A request that is under way.
    pub fn started(request: impl StartedRequest<T, E> + 'static) -> Self {
        Self(PendingState::Started(Box::new(request)))
    }

    /// Whether the request is over, so that [`wait`](Self::wait) returns at once.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            PendingState::Started(request) => request.is_done(),
            PendingState::Ready(_) | PendingState::Taken => true,
        }
    }

    /// Waits until the request is over, and returns its result.
    ///
    /// # Panics
    /// If the request was awaited to its end before.
    #[inline]
    pub fn wait(mut self) -> Result<T, E> {
        match std::mem::replace(&mut self.0, PendingState::Taken) {
            PendingState::Ready(result) => result,
            PendingState::Started(request) => request.wait(),
            PendingState::Taken => taken(),
        }
    }

    /// Withdraws a request that only waits, such as the wait for a lock, or that only copies memory
    /// of another rank to memory of the caller, which it then does not touch any more. Returns none
    /// if that succeeded, and the result if the request was over before. Waits for every other
    /// request.
    ///
    /// # Panics
    /// If the request was awaited to its end before.
    pub fn cancel(mut self) -> Result<Option<T>, E> {
        match std::mem::replace(&mut self.0, PendingState::Taken) {
            PendingState::Ready(result) => result.map(Some),
            PendingState::Started(request) => request.cancel(),
            PendingState::Taken => taken(),
        }
    }
}

impl<T: 'static, E: 'static> Pending<T, E> {
    /// The same request, whose result is passed through a function by the caller that takes it.
    pub fn then<U, F>(
        mut self,
        convert: impl FnOnce(Result<T, E>) -> Result<U, F> + Send + 'static,
    ) -> Pending<U, F> {
        match std::mem::replace(&mut self.0, PendingState::Taken) {
            PendingState::Ready(result) => Pending::ready(convert(result)),
            PendingState::Started(request) => {
                Pending::started(Converted { request, convert: Some(convert) })
            }
            PendingState::Taken => taken(),
        }
    }
}

fn taken() -> ! {
    panic!("the result of this request was taken before")
}

impl<T, E> Drop for Pending<T, E> {
    #[inline]
    fn drop(&mut self) {
        if let PendingState::Started(request) = std::mem::replace(&mut self.0, PendingState::Taken)
        {
            request.abandon();
        }
    }
}

/// The result is moved, never pinned.
impl<T, E> Unpin for Pending<T, E> {}

impl<T, E> Future for Pending<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match &mut self.0 {
            PendingState::Started(request) => std::task::ready!(request.poll(context)),
            _ => match std::mem::replace(&mut self.0, PendingState::Taken) {
                PendingState::Ready(result) => return Poll::Ready(result),
                _ => taken(),
            },
        };
        // The request is over; its drop has nothing to wait for.
        self.0 = PendingState::Taken;
        Poll::Ready(result)
    }
}

impl<T, E> fmt::Debug for Pending<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            PendingState::Ready(_) => "Pending(ready)",
            PendingState::Started(_) => "Pending(started)",
            PendingState::Taken => "Pending(taken)",
        })
    }
}

/// A request whose result is converted.
struct Converted<T, E, C> {
    request: Box<dyn StartedRequest<T, E>>,
    /// Present until the result is.
    convert: Option<C>,
}

impl<T, E, U, F, C> StartedRequest<U, F> for Converted<T, E, C>
where
    C: FnOnce(Result<T, E>) -> Result<U, F> + Send,
{
    fn is_done(&self) -> bool {
        self.request.is_done()
    }

    fn wait(self: Box<Self>) -> Result<U, F> {
        let Self { request, convert } = *self;
        match convert {
            Some(convert) => convert(request.wait()),
            None => taken(),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<U, F>> {
        let result = std::task::ready!(self.request.poll(context));
        match self.convert.take() {
            Some(convert) => Poll::Ready(convert(result)),
            None => taken(),
        }
    }

    fn cancel(self: Box<Self>) -> Result<Option<U>, F> {
        let Self { request, convert } = *self;
        let Some(convert) = convert else { taken() };
        match request.cancel() {
            Ok(None) => Ok(None),
            Ok(Some(value)) => convert(Ok(value)).map(Some),
            Err(error) => convert(Err(error)).map(Some),
        }
    }

    fn abandon(self: Box<Self>) {
        self.request.abandon();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Waker;

    use super::*;

    /// Counts how it was ended: by waits, by polls, by withdrawals.
    struct Counted {
        waits: Arc<AtomicU32>,
        polls_left: u32,
    }

    impl StartedRequest<u32, String> for Counted {
        fn is_done(&self) -> bool {
            self.polls_left == 0
        }

        fn wait(self: Box<Self>) -> Result<u32, String> {
            Ok(self.waits.fetch_add(1, Ordering::SeqCst))
        }

        fn poll(&mut self, _: &mut Context<'_>) -> Poll<Result<u32, String>> {
            match self.polls_left {
                0 => Poll::Ready(Err("polled".to_owned())),
                _ => {
                    self.polls_left -= 1;
                    Poll::Pending
                }
            }
        }
    }

    fn counted(polls_left: u32) -> (Arc<AtomicU32>, Pending<u32, String>) {
        let waits = Arc::new(AtomicU32::new(0));
        (waits.clone(), Pending::started(Counted { waits, polls_left }))
    }

    #[test]
    fn dropping_a_request_waits_for_it_once() {
        let (waits, pending) = counted(1);
        assert!(!pending.is_done());
        drop(pending);
        assert_eq!(waits.load(Ordering::SeqCst), 1);
        let (waits, pending) = counted(1);
        assert_eq!(pending.wait(), Ok(0));
        assert_eq!(waits.load(Ordering::SeqCst), 1);
        let (waits, pending) = counted(1);
        assert_eq!(pending.cancel(), Ok(Some(0)));
        assert_eq!(waits.load(Ordering::SeqCst), 1);
        let (waits, pending) = counted(1);
        drop(pending.then(|result| result.map(u64::from)));
        assert_eq!(waits.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn an_awaited_request_is_over_and_not_waited_for_again() {
        let (waits, mut pending) = counted(1);
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut pending).poll(&mut context).is_pending());
        let Poll::Ready(result) = Pin::new(&mut pending).poll(&mut context) else {
            panic!("the second poll has the result");
        };
        assert_eq!(result, Err("polled".to_owned()));
        drop(pending);
        assert_eq!(waits.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn results_are_converted_when_they_are_taken() {
        let convert = |result: Result<u32, String>| result.map(|value| value + 1).map_err(|_| ());
        let ready: Pending<u32, String> = Pending::ready(Ok(6));
        assert_eq!(ready.then(convert).wait(), Ok(7));
        let (_, pending) = counted(0);
        assert_eq!(pending.then(convert).wait(), Ok(1));
        let (_, pending) = counted(0);
        let mut pending = pending.then(convert);
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut pending).poll(&mut context), Poll::Ready(Err(())));
    }
}
