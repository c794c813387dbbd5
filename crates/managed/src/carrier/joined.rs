//! An attachment to the service, with the state that belongs to it alone.

use std::collections::VecDeque;

use petasos_abi::CallNumber;
use petasos_base::Time;
use petasos_endpoint::{Context, RequestKey};

use super::Begun;
use super::inward::Inward;
use super::outward::Outward;
use super::waiting::Waiting;
use crate::asks::Asks;
use crate::convert::Meant;
use crate::link::Link;
use crate::numbers::ByNumber;
use crate::services::Bindings;

/// An attachment, the numbers that its service has given, and the calls in its lane.
pub(super) struct Joined {
    pub(super) link: Option<Link>,
    /// Which of two attachments it is: requests that are delivered have numbers that say so.
    pub(super) is_second: bool,
    /// Calls begin there. Not at a successor, until it is moved to.
    pub(super) begins_calls: bool,
    /// The service has ended it. What was said before is still passed on.
    pub(super) is_over: bool,
    /// D14: the service has a successor.
    pub(super) is_succeeded: bool,
    /// D14: calls are to begin at the successor.
    pub(super) may_move: bool,
    pub(super) hear_at: Time,
    /// The socket was not looked at in the latest turn.
    pub(super) is_unheard: bool,
    pub(super) asks: Asks,
    pub(super) bindings: Bindings,
    /// By the place of the session: the number of the name that it calls.
    targets: Vec<Option<u32>>,
    /// Whether the service lets others call this process at its address.
    pub(super) is_served: bool,
    /// When it is asked again.
    pub(super) serve_at: Time,
    pub(super) begun: ByNumber<Begun>,
    /// The calls of the lane, by the endpoint's numbers of calls.
    pub(super) handed: ByNumber<CallNumber>,
    /// Delivered requests whose handlers have not answered, by their calls' numbers.
    pub(super) running: ByNumber<RequestKey>,
    /// The types of responses that will be protobuf, by their calls' numbers.
    pub(super) answers: ByNumber<Meant>,
    pub(super) outward: ByNumber<Outward>,
    pub(super) inward: ByNumber<Inward>,
    /// A stream may wait for room.
    pub(super) is_any_blocked: bool,
    /// Calls and answers that wait for room, in order.
    pub(super) waiting: VecDeque<Waiting>,
}

impl Joined {
    pub(super) fn new(is_second: bool) -> Joined {
        Joined {
            link: None,
            is_second,
            begins_calls: true,
            is_over: false,
            is_succeeded: false,
            may_move: false,
            hear_at: Time::ZERO,
            is_unheard: false,
            asks: Asks::default(),
            bindings: Bindings::default(),
            targets: Vec::new(),
            is_served: false,
            serve_at: Time::NEVER,
            begun: ByNumber::default(),
            handed: ByNumber::default(),
            running: ByNumber::default(),
            answers: ByNumber::default(),
            outward: ByNumber::default(),
            inward: ByNumber::default(),
            is_any_blocked: false,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn target(&self, place: usize) -> Option<u32> {
        *self.targets.get(place)?
    }

    pub(super) fn set_target(&mut self, place: usize, target: Option<u32>) {
        if self.targets.len() <= place {
            self.targets.resize(place + 1, None);
        }
        self.targets[place] = target;
    }

    /// Whether the loop may sleep, as far as this is concerned.
    pub(super) fn may_sleep(&mut self) -> bool {
        let link = self.link.as_mut().filter(|_| !self.is_over);
        link.is_none_or(Link::doze)
    }

    /// When it needs a turn, if nothing arrives.
    pub(super) fn next_turn_at(&self) -> Time {
        let Some(link) = self.link.as_ref().filter(|_| !self.is_over) else { return Time::NEVER };
        // What has woken the loop may be what was not heard in this turn.
        let hear_at = if self.is_unheard { self.hear_at } else { Time::NEVER };
        link.push_at().min(hear_at).min(link.early_until()).min(self.serve_at)
    }

    /// Forgets what waits for room.
    pub(super) fn free_waiting<S>(&mut self, cx: &mut Context<S>) {
        for waiting in self.waiting.drain(..) {
            if let Waiting::Answer(_, response, ..) = waiting {
                cx.free(response);
            }
        }
    }
}
