//! Streams of channels to groups (RT37): a router names a worker, and they use sessions with it.
//!
//! The channel for the streams has one server at a time, the worker where the group's router has
//! placed it, and stays there as long as it is connected. To its core that is a name that is looked
//! up: the router is asked in place of the system's resolver.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use petasos_call::balance::Balance;
use petasos_call::channel::ChannelConfig;
use petasos_endpoint::{Context, Endpoint, GroupId, Routing, Time};

use super::{ChannelEntry, Channels};

/// A router is asked for another worker after so long at the earliest, if one fails; the next time
/// after twice as long.
const PLACE_GAP: Duration = Duration::from_millis(20);

/// The place of a channel for streams.
#[derive(Debug)]
pub(crate) struct Place {
    /// The channel that calls the group.
    group_of: u32,
    /// The worker's control address.
    worker: Option<SocketAddr>,
}

/// A channel that looks for a place.
#[derive(Debug)]
pub(crate) struct Placing {
    channel: u32,
    step: PlaceStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceStep {
    /// The endpoint is to be asked.
    Ask,
    /// No router can be asked now.
    Wait,
    /// The router is asked.
    Asked,
}

impl Placing {
    pub(super) fn needs_endpoint(&self) -> bool {
        self.step == PlaceStep::Ask
    }

    pub(super) fn channel(&self) -> u32 {
        self.channel
    }
}

impl ChannelEntry {
    /// Makes this the channel for the streams of one that calls a group.
    pub(super) fn place_by(&mut self, group_of: u32) {
        self.place = Some(Place { group_of, worker: None });
    }

    /// The settings of a channel for the streams of a group's channel.
    pub(super) fn place_config(config: &ChannelConfig) -> ChannelConfig {
        let defaults = ChannelConfig::default();
        let (balance, waiting_max) = (Balance::PickFirst, config.waiting_max);
        // A router answers quicker than a name server, and another worker is there at once.
        let (streams, resolves, lookup_gap) = (true, true, PLACE_GAP);
        ChannelConfig { balance, streams, resolves, lookup_gap, waiting_max, ..defaults }
    }
}

impl Channels {
    /// Looks for the place of a channel, if it is one that has a place. Returns whether it is.
    pub(crate) fn look_for_place(&mut self, channel: u32, now: Time) -> bool {
        let Some(entry) = self.entry(channel) else { return false };
        let Some(place) = &entry.place else { return false };
        match place.worker.filter(|_| entry.core.is_ready()) {
            // It stays.
            Some(worker) => entry.core.handle_resolved(&[worker], now),
            None => {
                self.placing.push(Placing { channel, step: PlaceStep::Ask });
                if let Some(of) = self.group_channel(channel) {
                    self.entry(of).expect("it was just there").core.connect();
                    self.mark_dirty(of);
                }
            }
        }
        self.mark_dirty(channel);
        true
    }

    /// The channel in whose stead a channel has streams, if it is still there: its number may be
    /// another's by now.
    fn group_channel(&mut self, channel: u32) -> Option<u32> {
        let entry = self.entry(channel)?;
        let (of, info) = (entry.place.as_ref()?.group_of, entry.info.clone());
        self.entry(of).is_some_and(|of| Arc::ptr_eq(&of.info, &info)).then_some(of)
    }

    /// The group of that channel.
    fn group_of(&mut self, channel: u32) -> Option<GroupId> {
        let of = self.group_channel(channel)?;
        self.entry(of)?.group.as_ref().map(|group| group.id)
    }

    /// Asks routers for places.
    pub(super) fn ask_for_places<S>(&mut self, endpoint: &mut Endpoint<S>) {
        let mut placing = core::mem::take(&mut self.placing);
        for it in placing.iter_mut().filter(|it| it.step == PlaceStep::Ask) {
            let last = self.entry(it.channel).and_then(|entry| entry.place.as_ref()?.worker);
            let group = self.group_of(it.channel);
            let is_asked =
                group.is_some_and(|group| endpoint.place(group, &Routing::default(), last));
            it.step = if is_asked { PlaceStep::Asked } else { PlaceStep::Wait };
        }
        self.placing.append(&mut placing);
    }

    /// Looks whether routers have answered, or can be asked.
    pub(super) fn check_places<S>(&mut self, cx: &mut Context<S>) {
        for mut it in core::mem::take(&mut self.placing) {
            let group = self.group_of(it.channel);
            let placed = match (it.step, group) {
                (PlaceStep::Asked, Some(group)) => cx.placed(group).map(|placed| {
                    placed.map_err(|error| format!("no worker to connect to: {error}"))
                }),
                (PlaceStep::Wait, Some(group)) if cx.can_be_placed(group) => {
                    it.step = PlaceStep::Ask;
                    None
                }
                (PlaceStep::Wait, _) => self.group_failure(it.channel).map(Err),
                (_, None) => Some(Err("the channel to the group is closed".to_owned())),
                _ => None,
            };
            match placed {
                Some(placed) => self.placed(it.channel, placed, cx.now()),
                None => self.placing.push(it),
            }
        }
    }

    /// Why calls to the group fail, if they do.
    fn group_failure(&mut self, channel: u32) -> Option<String> {
        let Some(of) = self.group_channel(channel) else {
            return Some("the channel to the group is closed".to_owned());
        };
        let of = self.entry(of)?;
        of.core.is_failing().then(|| of.last_error.clone())
    }

    fn placed(&mut self, channel: u32, placed: Result<SocketAddr, String>, now: Time) {
        let Channels { list, rng, .. } = self;
        let entry = list.get_mut(channel as usize).and_then(Option::as_mut);
        let Some(entry) = entry else { return };
        match placed {
            Ok(worker) => {
                entry.lookup_error.clear();
                entry.core.handle_resolved(&[worker], now);
                if let Some(place) = &mut entry.place {
                    place.worker = Some(worker);
                }
            }
            Err(why) => {
                entry.lookup_error = why;
                entry.core.handle_unresolved(now, rng);
            }
        }
        self.mark_dirty(channel);
    }
}
