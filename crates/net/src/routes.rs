//! The channels on which the peer of a link sends: the open ones, and closed ones that the peer may
//! not know to be closed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use crate::assembler::FrameGroup;
use crate::port::{PortRole, Sink};
use crate::route::FrameRoute;
use crate::wire::CONTROL_CHANNEL;

/// The limit of closed channels that are remembered. A peer learns of closures in order, so it
/// cannot send on older ones.
const GONE_KEPT: usize = 1 << 16;

/// The channels on which a peer sends.
#[derive(Default)]
pub(crate) struct Routes {
    by_channel: HashMap<u32, Arc<FrameRoute>>,
    last: u32,
    /// The ports for requests that the peer has left, by number; they learn of the loss of the link
    /// too.
    left: HashMap<u32, Weak<dyn Sink>>,
    /// Closed channels that the peer may still use, and its remaining credit.
    gone: HashMap<u32, i64>,
    /// The same, oldest first.
    gone_order: VecDeque<u32>,
}

impl Routes {
    /// The number of open channels.
    pub fn len(&self) -> usize {
        self.by_channel.len()
    }

    /// Opens a channel with the route that `make` returns for its number.
    pub fn open(&mut self, make: impl FnOnce(u32) -> FrameRoute) -> u32 {
        self.last += 1;
        self.by_channel.insert(self.last, Arc::new(make(self.last)));
        self.last
    }

    /// Closes a channel that the peer has left.
    pub fn leave(&mut self, channel: u32) -> Option<Arc<FrameRoute>> {
        let route = self.by_channel.remove(&channel)?;
        let label = route.sink().label();
        if label.role == PortRole::Requests {
            self.left.insert(label.number, Arc::downgrade(route.sink()));
        }
        Some(route)
    }

    /// Closes the channels to a port that is gone; returns them.
    pub fn close(&mut self, port: u32) -> Vec<(u32, Arc<FrameRoute>)> {
        self.left.remove(&port);
        let mut closed = Vec::new();
        self.by_channel.retain(|channel, route| {
            let is_gone = route.sink().label().number == port;
            if is_gone {
                closed.push((*channel, route.clone()));
            }
            !is_gone
        });
        for (channel, route) in &closed {
            self.keep_gone(*channel, route.credit_left());
        }
        closed
    }

    /// Takes all routes, because the link is lost; and the ports, each once, that learn of it.
    pub fn take_all(&mut self) -> (Vec<Arc<FrameRoute>>, Vec<Arc<dyn Sink>>) {
        let routes: Vec<_> = std::mem::take(&mut self.by_channel).into_values().collect();
        let mut ports: HashMap<_, _> = std::mem::take(&mut self.left)
            .into_iter()
            .filter_map(|(number, sink)| Some((number, sink.upgrade()?)))
            .collect();
        let open = routes.iter().map(|route| (route.sink().label().number, route.sink().clone()));
        ports.extend(open);
        (routes, ports.into_values().collect())
    }

    fn keep_gone(&mut self, channel: u32, credit: i64) {
        if self.gone_order.len() >= GONE_KEPT
            && let Some(oldest) = self.gone_order.pop_front()
        {
            self.gone.remove(&oldest);
        }
        self.gone.insert(channel, credit);
        self.gone_order.push_back(channel);
    }

    /// The route of a channel; none if its port is gone. Fails if the channel is not open.
    pub fn find(&self, channel: u32) -> Result<Option<Arc<FrameRoute>>, String> {
        match self.by_channel.get(&channel) {
            Some(route) => Ok(Some(route.clone())),
            None if self.gone.contains_key(&channel) => Ok(None),
            None => Err(format!("it used channel {channel}, which is not open")),
        }
    }

    /// Checks that the peer may send these frames, and counts them. The error says what the peer
    /// did wrong.
    pub fn admit(&mut self, groups: &[FrameGroup]) -> Result<(), String> {
        for group in groups.iter().filter(|group| group.channel != CONTROL_CHANNEL) {
            match self.find(group.channel)? {
                Some(route) => route.admit(group)?,
                None => self.admit_late(group)?,
            }
        }
        Ok(())
    }

    /// Like `admit`, for a closed channel.
    fn admit_late(&mut self, group: &FrameGroup) -> Result<(), String> {
        let number = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let left = self.gone.entry(group.channel).or_default();
        if number(group.cost - group.last_cost) >= *left {
            let channel = group.channel;
            return Err(format!("it sent more on channel {channel} than it had credit for"));
        }
        *left = left.saturating_sub(number(group.cost));
        Ok(())
    }
}
