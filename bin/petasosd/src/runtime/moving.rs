//! Applications that move to another runtime while their calls run.
//!
//! An application moves as it does to the successor of the whole process (D14): it is told of one,
//! attaches again at the same socket, and begins its calls there. What runs ends where it has begun.
//! The names and addresses at which it serves go along, to nobody but the same application.

use std::time::Duration;

use petasos_attach::Credentials;
use petasos_attach::reason::DetachCode;
use petasos_attach::session::Handover;
use petasos_base::Time;
use petasos_engine::Application as Number;
use petasos_service::HubId;

use super::Runtime;
use super::set::{RuntimeSet, State};
use crate::takeover::{Owner, owner};

/// An application that moves.
pub struct Moving {
    number: Number,
    name: String,
    owner: Owner,
    from: HubId,
    /// Where it goes; none for whatever runtime it would get.
    to: Option<HubId>,
    /// It has attached there.
    is_there: bool,
    ended_by: Time,
}

impl RuntimeSet {
    /// Where an application that attaches goes, if it is one that moves.
    pub fn awaited(&mut self, name: &str, who: Credentials) -> Option<HubId> {
        let who = owner(who);
        let is_it =
            |moving: &&mut Moving| !moving.is_there && moving.name == name && moving.owner == who;
        let moving = self.moving.iter_mut().find(is_it)?;
        moving.is_there = true;
        let to = moving.to?;
        self.row(to).is_some_and(|row| row.state == State::Runs).then_some(to)
    }

    /// Goes on with those that move from a runtime. Says whether anything has happened.
    pub fn move_on(&mut self, runtime: &mut Runtime, now: Time) -> bool {
        let mut has_moved = false;
        let from = runtime.id();
        self.moving.retain(|moving| {
            let goes_on = moving.from != from || moving.goes_on(runtime, now);
            has_moved |= !goes_on;
            goes_on
        });
        let is_left =
            self.row(from).is_some_and(|row| row.state == State::Leaves) && runtime.is_empty();
        if is_left {
            self.end_leaving(from);
            eprintln!("petasosd: runtime {} is removed", from.0);
        }
        has_moved | is_left
    }
}

impl Moving {
    /// Whether there is still something to do.
    fn goes_on(&self, runtime: &mut Runtime, now: Time) -> bool {
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
        self.hub.give_way(number);
        let owner = owner(member.who);
        for (address, file) in member.ports() {
            // Without a descriptor to spare, the application asks until the address is free.
            if let Ok(file) = file.try_clone() {
                self.common.kept.keep(owner, *address, file);
            }
        }
        let (name, from) = (member.name.clone(), self.id());
        Some(Moving { number, name, owner, from, to, is_there: false, ended_by })
    }

    /// Tells all applications to move. Those that do not know how to are detached, and attach again.
    pub fn move_all(&mut self, now: Time, drain: Duration) -> Vec<Moving> {
        let numbers: Vec<Number> = self.members.iter().map(|member| member.number).collect();
        let moving = |number| self.begin_moving(number, None, now + drain);
        let all: Vec<Moving> = numbers.into_iter().filter_map(moving).collect();
        self.each(now, |member, hub| {
            if all.iter().any(|moving| moving.number == member.number) {
                return Ok(false);
            }
            let application = hub.application(member.number).ok_or("it is gone")?;
            match application.memory().0.handover() {
                Handover::None => Err("it cannot move to another runtime".to_owned()),
                _ => Ok(false),
            }
        });
        all
    }

    /// Whether it has no applications, and no calls that others carry through it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.crossing.calls() == 0
    }
}

/// Whether an application can move.
pub fn can_move(number: Number, runtime: &mut Runtime) -> bool {
    let application = runtime.hub.application(number);
    application.is_some_and(|application| {
        let attached = &application.memory().0;
        attached.version() >= petasos_attach::hello::HANDOVER_VERSION
            && attached.handover() == Handover::None
    })
}
