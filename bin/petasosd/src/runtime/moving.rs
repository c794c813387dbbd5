//! Applications that move to another runtime while their calls run.
//!
//! An application moves as it does to the successor of the whole process (D14): it is told of one,
//! attaches again at the same socket, and begins its calls there. What runs ends where it has
//! begun. The names at which it serves go along, to this attachment alone, and the addresses, to
//! the same process alone.

use std::time::Duration;

use petasos_attach::hello::HANDOVER_VERSION;
use petasos_attach::reason::DetachCode;
use petasos_attach::session::Handover;
use petasos_base::Time;
use petasos_engine::Application as Number;
use petasos_service::HubId;

use super::Runtime;
use crate::ports::{Kept, Owner, owner};

/// An application that moves.
pub struct Moving {
    pub(super) number: Number,
    pub(super) name: String,
    pub(super) owner: Owner,
    pub(super) from: HubId,
    /// Where it goes; none for whatever runtime it would get.
    pub(super) to: Option<HubId>,
    ended_by: Time,
}

impl Moving {
    /// Whether there is still something to do.
    pub(super) fn goes_on(&self, runtime: &mut Runtime, now: Time) -> bool {
        let Some(member) = runtime.members.iter().find(|its| its.number == self.number) else {
            return false;
        };
        let hub = &mut runtime.hub;
        let Some(application) = hub.application(self.number) else { return false };
        let attached = &mut application.memory().0;
        if attached.handover() >= Handover::Attached {
            attached.let_move();
        }
        if now < self.ended_by && !member.has_nothing_left(hub) {
            return true;
        }
        if let Some(application) = hub.application(self.number) {
            let attached = &mut application.memory().0;
            attached.say_detach(DetachCode::Stopping, "it is at another runtime now");
            // What is not written now is not said.
            let _ = attached.turn(now, |_| {});
        }
        runtime.members.retain(|member| member.number != self.number);
        runtime.note_members();
        runtime.hub.remove(self.number, now);
        false
    }
}

impl Runtime {
    /// Tells an application to move, to this runtime or wherever it is to be. Gives none if it does
    /// not know how to, or moves already.
    pub fn begin_moving(
        &mut self,
        number: Number,
        to: Option<HubId>,
        ended_by: Time,
    ) -> Option<Moving> {
        let member = self.members.iter().find(|member| member.number == number)?;
        let attached = &mut self.hub.application(number)?.memory().0;
        if !attached.announce_successor() {
            return None;
        }
        let owner = owner(member.who);
        for (address, file) in member.ports() {
            // Without a descriptor to spare, the application asks until the address is free.
            if let Ok(file) = file.try_clone() {
                let (address, mover) = (*address, Some(number));
                self.common.kept.keep(Kept { owner, address, file, mover });
            }
        }
        let (name, from) = (member.name.clone(), self.id());
        Some(Moving { number, name, owner, from, to, ended_by })
    }

    /// Tells all applications to move. Those that do not know how to are detached, and attach
    /// again.
    pub fn move_all(&mut self, now: Time, drain: Duration) -> Vec<Moving> {
        let numbers: Vec<Number> = self.members.iter().map(|member| member.number).collect();
        let moving = |number| self.begin_moving(number, None, now + drain);
        let all: Vec<Moving> = numbers.into_iter().filter_map(moving).collect();
        self.each(now, |member, hub| {
            if all.iter().any(|moving| moving.number == member.number) {
                return Ok(false);
            }
            let application = hub.application(member.number).ok_or("it is gone")?;
            let attached = &mut application.memory().0;
            if attached.handover() != Handover::None {
                return Ok(false);
            }
            attached.say_detach(DetachCode::Stopping, "attach again, to another runtime");
            let _ = attached.turn(now, |_| {});
            Err("it cannot move to another runtime".to_owned())
        });
        all
    }
}

/// Why an application cannot move, if it cannot.
pub fn why_not(number: Number, runtime: &mut Runtime) -> Option<&'static str> {
    let member = runtime.members.iter().find(|member| member.number == number)?;
    let attached = &runtime.hub.application(number)?.memory().0;
    if attached.version() < HANDOVER_VERSION {
        return Some("its library does not know how to move");
    }
    if attached.handover() != Handover::None {
        return Some("it moves already");
    }
    let is_unknown = member.who.pid.is_none() && !member.ports().is_empty();
    is_unknown.then_some("it serves at an address, and its process cannot be seen from here")
}
