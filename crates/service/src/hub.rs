//! The applications of a host, and the calls between them.

use std::sync::{Arc, MutexGuard};

use petasos_base::Time;
use petasos_call::Status;
use petasos_engine::{
    Application as Number, Call, CallId, Datapath, Direction, Finished, ItemKind, Peer, Runtime,
    Submission, Turn,
};
use petasos_shm::Loans;

use crate::application::{Application, Body, Memory, Target};
use crate::applications::Applications;
use crate::beyond::{BEYOND, Remote, not_sealed};
use crate::host::{Host, HubId, Sealing, Server};
use crate::hub_error::{HubError, NAMES_MAX};
use crate::known::Known;
use crate::outgoing::Waiting;
use crate::routes::Route;
use crate::schemas::{MethodAt, Schemas};
use crate::stats::{Gone, Way};
use crate::versions::retyped;
use crate::{Binding, SchemaLimits};

/// A name that an application calls, by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetId(pub u32);

/// The applications of a runtime.
pub struct Hub<M> {
    /// By number.
    pub(crate) applications: Applications<M>,
    /// What it shares with the hubs of other runtimes.
    pub(crate) host: Arc<Host>,
    pub(crate) id: HubId,
    /// Calls that leave this hub or come in, if there is a way.
    pub(crate) remote: Option<Remote>,
    wake_at: Time,
    /// Numbers of a turn: kept for its memory.
    turn: Vec<u32>,
    pub(crate) gone: Gone,
    /// Makes whoever runs the hub turn it.
    notify: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl<M: Memory> Hub<M> {
    /// The only hub of its host, without applications.
    pub fn new(limits: SchemaLimits) -> Hub<M> {
        Hub::on(&Host::new(limits))
    }

    /// Another hub of a host, without applications.
    pub fn on(host: &Arc<Host>) -> Hub<M> {
        Hub {
            applications: Applications::new(),
            host: host.clone(),
            id: host.add_hub(),
            remote: None,
            wake_at: Time::NEVER,
            turn: Vec::new(),
            gone: Gone::default(),
            notify: None,
        }
    }

    /// Its number at its host.
    pub fn id(&self) -> HubId {
        self.id
    }

    /// A number for an application that is about to be [added](Hub::add). No other gets it, at no
    /// hub of the host.
    pub fn next_number(&self) -> Number {
        self.host.next_application()
    }

    /// Adds an application.
    ///
    /// # Panics
    /// If one with a later number was added before.
    pub fn add(&mut self, mut application: Application<M>) {
        let number = application.number();
        let user = application.user.filter(|_| !application.is_proved);
        if application.is_proved || user.is_some() {
            let name = (application.name(), user);
            application.policed = self.host.policed(name, number);
        }
        application.fields.at(&self.host);
        application.host = Some(self.host.clone());
        application.datapath.set_runtime(Runtime(self.id.0));
        if let Some(notify) = &self.notify {
            let notify = notify.clone();
            application.lent = Loans::new(move || notify());
        }
        self.applications.insert(number.0, application);
    }

    /// From now on `notify` is called, on any thread, when the hub should turn soon: a message of
    /// an application that is added later has been sent, and it has its memory back.
    pub fn set_notifier(&mut self, notify: impl Fn() + Send + Sync + 'static) {
        self.notify = Some(Arc::new(notify));
    }

    /// An application.
    pub fn application(&mut self, number: Number) -> Option<&mut Application<M>> {
        self.applications.get_mut(&number.0)
    }

    /// An application calls a name: gives its number in requests.
    ///
    /// # Errors
    /// See [`HubError`].
    pub fn target(&mut self, number: Number, name: &str) -> Result<TargetId, HubError> {
        let application = self.applications.get_mut(&number.0);
        let targets = &mut application.ok_or(HubError::NoApplication(number))?.targets;
        let known = targets.iter().position(|target| *target.name == *name);
        if known.is_none() && targets.len() >= NAMES_MAX {
            return Err(HubError::TooMany);
        }
        let index = known.unwrap_or_else(|| {
            let (name, peer) = self.host.peer(name);
            targets.push(Target { name, peer, sealed: None });
            targets.len() - 1
        });
        Ok(TargetId(index as u32))
    }

    /// Tells policies which calls leave the host encrypted, from now on. What carries calls refuses
    /// those that were [judged as encrypted](crate::Outgoing::is_sealed) and would not be.
    pub fn set_sealing(&mut self, sealing: Arc<dyn Sealing>) {
        self.host.set_sealing(sealing);
    }

    /// Lets no application serve under these names, and under others that were reserved before.
    ///
    /// # Errors
    /// [`HubError::NameTaken`]: an application does.
    pub fn reserve(&mut self, names: &[&str]) -> Result<(), HubError> {
        self.host.reserve(names)
    }

    /// An application serves what it has bound under a name.
    ///
    /// # Errors
    /// See [`HubError`].
    pub fn serve(&mut self, number: Number, name: &str) -> Result<(), HubError> {
        self.application(number).ok_or(HubError::NoApplication(number))?;
        self.host.serve(name, Server { hub: self.id, application: number })
    }

    /// An application of the host has attached once more, here or at another hub: the new
    /// attachment may take the names under which this one serves.
    pub fn give_way(&mut self, number: Number, to: Number) {
        self.host.give_way(number, to);
    }

    /// The schemas that are known, on all hubs of the host. Nobody binds any meanwhile.
    pub fn schemas(&self) -> MutexGuard<'_, Schemas> {
        self.host.schemas()
    }

    /// An application has gone, or is to go. Calls to it fail, and those that it has made are
    /// cancelled.
    pub fn remove(&mut self, number: Number, now: Time) {
        let Some(mut application) = self.applications.remove(&number.0) else { return };
        self.host.remove(number);
        self.forget_exports();
        let mut calls: Vec<Known> = application.calls.drain(..).flatten().collect();
        for known in &mut calls {
            known.give_up(&mut application.stats, known.method.of(&application.bindings));
        }
        self.gone.add(&application.stats);
        for known in calls {
            let Some((far, call)) = known.far else { continue };
            if far == BEYOND {
                self.remote_left(call);
                continue;
            }
            let Some(other) = self.application(far) else { continue };
            let is_served = other.datapath.call(call).map(|call| call.requests);
            match is_served {
                Some(Direction::Outbound) => {
                    other.datapath.end(call, Status::unavailable("the server has gone"), now);
                }
                Some(Direction::Inbound) => {
                    let cancel = Submission::new(ItemKind::Cancel, Direction::Inbound, 0);
                    // One that is over needs no cancel.
                    let _ = other.submit(call, cancel, None, now);
                }
                None => {}
            }
        }
        // What it alone has bound is spare now.
        drop(application);
        self.host.schemas().trim(0);
    }

    /// Runs all datapaths once, and passes on what has passed them. Says whether anything moved.
    pub fn turn(&mut self, now: Time) -> bool {
        self.turn_each::<false>(now, |datapath| datapath.run(now), |_| ())
    }

    /// The same, and measures by a clock what engines cost.
    pub fn turn_sampled(&mut self, now: Time, clock: &dyn Fn() -> Time) -> bool {
        self.turn_each::<false>(now, |datapath| datapath.run_sampled(now, clock), |_| ())
    }

    /// The same, and measures by a clock what each application costs
    /// ([`Application::processor_ns`]); what engines cost, too, if it `is_sampled`.
    pub fn turn_metered(&mut self, now: Time, is_sampled: bool, clock: &dyn Fn() -> Time) -> bool {
        let mut begin = None;
        let charge = |application: Option<(&mut Application<M>, bool)>| {
            let end = clock();
            if let (Some((application, true)), Some(begin)) = (application, begin) {
                application.charge_processor(end.nanos_since(begin));
            }
            begin = Some(end);
        };
        match is_sampled {
            true => {
                let run = |datapath: &mut Datapath| datapath.run_sampled(now, clock);
                self.turn_each::<true>(now, run, charge)
            }
            false => self.turn_each::<true>(now, |datapath| datapath.run(now), charge),
        }
    }

    /// Does the work of all applications. If it is metered, `charge` is told when the first begins,
    /// and after each whether it moved anything.
    #[inline]
    fn turn_each<const IS_METERED: bool>(
        &mut self,
        now: Time,
        run: impl Fn(&mut Datapath) -> Turn,
        mut charge: impl FnMut(Option<(&mut Application<M>, bool)>),
    ) -> bool {
        let mut has_moved = false;
        self.wake_at = self.end_late_copies(now);
        self.forget_old_exports();
        let mut numbers = std::mem::take(&mut self.turn);
        numbers.clear();
        numbers.extend(self.applications.keys());
        if IS_METERED {
            charge(None);
        }
        for &number in &numbers {
            let application = self.applications.get_mut(&number).expect("none goes meanwhile");
            let turn = run(&mut application.datapath);
            let mut has_worked = turn.has_worked;
            self.wake_at = self.wake_at.min(turn.wake_at);
            has_worked |= self.pass_on(Number(number), now);
            let application = self.applications.get_mut(&number).expect("none goes meanwhile");
            has_worked |= application.deliver(now);
            application.free_void();
            application.end_unread(now);
            let is_calm = application.is_calm();
            if !application.given.is_empty() {
                self.note_given(Number(number));
            }
            if !is_calm {
                let (moved, due) = self.mind_beyond(Number(number), now);
                has_worked |= moved;
                self.wake_at = self.wake_at.min(due);
            }
            has_moved |= has_worked;
            if IS_METERED {
                let application = self.applications.get_mut(&number).expect("none goes meanwhile");
                charge(Some((application, has_worked)));
            }
        }
        self.turn = numbers;
        has_moved
    }

    /// When a policy wants to work by itself, as of the last turn.
    pub fn wake_at(&self) -> Time {
        self.wake_at
    }

    /// The heaps of an application.
    pub fn heaps(&self, number: Number) -> Option<&M> {
        self.applications.get(&number.0).map(|application| &application.memory)
    }

    /// Passes on what an application has sent.
    fn pass_on(&mut self, number: Number, now: Time) -> bool {
        let mut has_moved = false;
        loop {
            let application = self.application(number).expect("the caller has it");
            let Some(next) = application.next(Direction::Outbound, now) else {
                return has_moved;
            };
            has_moved = true;
            let Waiting { kind, call: id, bytes } = next;
            let ready = match kind {
                ItemKind::Request => self.connect(number, id, now),
                _ if bytes > 0 => self.check_room(number, id),
                _ => Ok(()),
            };
            match ready {
                Ok(()) => self.hand_over(number, now),
                Err(status) => {
                    let application = self.application(number).expect("it is there");
                    application.datapath.end(id, status, now);
                }
            }
        }
    }

    /// Whether the other end of a call can be given a message. An application that takes none of
    /// its messages does not fill the service: its calls end.
    fn check_room(&mut self, number: Number, id: CallId) -> Result<(), Status> {
        let application = self.application(number).expect("it has an item");
        let far = application.known(id).and_then(|known| known.far);
        let other = far.and_then(|(far, _)| self.application(far));
        match other.is_none_or(|other| other.holds_less()) {
            true => Ok(()),
            false => Err(Status::resource_exhausted("the receiver does not take its messages")),
        }
    }

    /// Begins a call in the datapath of the application that serves it.
    fn connect(&mut self, number: Number, id: CallId, now: Time) -> Result<(), Status> {
        let changes = self.host.changes();
        let caller = self.application(number).expect("it calls");
        let known = caller.known(id).expect("its request is there");
        let call = caller.datapath.call(id).expect("its request is there").clone();
        let wanted = (known.target, caller.method(known.method).id);
        let (identity, caller_number) = (caller.identity(), caller.policed.number);
        let route = match caller.routes.get(wanted, changes) {
            Some(route) => route,
            None => self.find_route(number, id)?,
        };
        if call.is_sealed && !matches!(route, Route::Beyond(_)) {
            return Err(not_sealed());
        }
        let Route::Here { server, method } = route else {
            return self.connect_beyond((number, id), route);
        };
        let gone = || Status::unavailable("the server has gone");
        let callee = self.applications.get_mut(&server.0).ok_or_else(gone)?;
        if !callee.takes_calls() {
            return Err(Status::resource_exhausted("the server takes no more calls now"));
        }
        let call = Call {
            application: callee.policed.number,
            peer: Peer(caller_number.0),
            method: callee.method(method).id,
            requests: Direction::Inbound,
            is_sealed: false,
            began: now,
            identity,
            ..call
        };
        let full = |_| Status::resource_exhausted("the server takes no more calls now");
        let far_id = callee.datapath.begin(call).map_err(full)?;
        let far_number = callee.next_number();
        let mut known = Known::new((far_id, far_number), (method, number.0), now);
        known.far = Some((number, id));
        callee.remember_served(known, Way::FromLocal);
        let caller = self.application(number).expect("it calls");
        caller.connected(id, (server, far_id), Way::ToLocal);
        Ok(())
    }

    /// Who serves what a call calls. It is known from now on.
    fn find_route(&mut self, number: Number, id: CallId) -> Result<Route, Status> {
        let changes = self.host.changes();
        let caller = self.application(number).expect("it calls");
        let known = caller.known(id).expect("its request is there");
        let (target, at) = (known.target, known.method);
        let wanted = (target, caller.method(at).id);
        let binding = caller.bindings[usize::from(at.binding)].clone();
        let target = caller.targets.get(target as usize).map(|target| target.name.clone());
        let target = target.ok_or_else(|| Status::internal("there is no such target"))?;
        let why = "and the service calls no other hosts";
        let nobody = || Status::unavailable(format!("no application serves `{target}`, {why}"));
        let route = match self.host.server(&target) {
            Some(Server { hub, application: server }) if hub == self.id => {
                let callee = self.applications.get(&server.0).ok_or_else(nobody)?;
                let method = served(&self.host, callee, &binding, usize::from(at.method))?;
                Route::Here { server, method }
            }
            Some(server) => Route::There(server),
            None => Route::Beyond(self.host.transport().ok_or_else(nobody)?),
        };
        let caller = self.application(number).expect("it calls");
        caller.routes.insert(wanted, changes, route);
        Ok(route)
    }

    /// Moves the next item of an application to the other end of its call.
    fn hand_over(&mut self, number: Number, now: Time) {
        let mut application = self.application(number).expect("it has an item");
        let item = application.datapath.take_shown(Direction::Outbound);
        let body = application.take_body(item.index);
        if let (Some(peer), Some(message)) = (item.mirror, &body) {
            self.mirror(number, &item, message, (peer, now));
            application = self.application(number).expect("it has an item");
        }
        let bytes = body.as_ref().map_or(0, |body| body.image_bytes());
        let known = application.count(&item, (Direction::Outbound, bytes), now);
        let far = known.and_then(|known| known.far);
        application.settle(item.call);
        let Some((far, call)) = far else { return };
        let (near, is_message) = (item.call, item.kind == ItemKind::Message);
        let is_handed = match far == BEYOND {
            true => self.hand_out((number, call), item, body),
            false => self.hand_to((far, call), item, body, now),
        };
        if is_message
            && !is_handed
            && let Some(application) = self.application(number)
        {
            // Nobody takes it any more: its sender does not wait for that (R19).
            application.note_taken(near);
        }
    }

    /// Hands an item to the application that has the other end of its call. Says whether that is
    /// still there.
    fn hand_to(
        &mut self,
        (far, call): (Number, CallId),
        item: Finished,
        body: Body,
        now: Time,
    ) -> bool {
        let Some(other) = self.application(far) else { return false };
        let Some(known) = other.known(call) else { return false };
        let body = body.map(|body| {
            let method = other.method(known.method);
            let is_request = known.number.begun_by() == petasos_abi::Side::Service;
            let message = if is_request { method.request } else { method.response };
            let bytes_max = other.limits.message_bytes_max;
            retyped(body, (other.types(known.method), message), bytes_max)
        });
        let body = match body.transpose() {
            Ok(body) => body,
            Err(status) => {
                // Both ends are told.
                other.datapath.end(call, status, now);
                other.settle(call);
                return false;
            }
        };
        let Finished { kind, metadata, status, has_not_run, .. } = item;
        let bytes = body.as_ref().map_or(0, |body| body.image_bytes() as u32);
        let item = Submission {
            metadata,
            status,
            has_not_run,
            ..Submission::new(kind, Direction::Inbound, bytes)
        };
        // A call that is over at the other end needs nothing more.
        let is_open = other.submit(call, item, body, now).is_ok();
        other.settle(call);
        is_open
    }
}

/// The method of the application that serves a method of a caller's binding.
pub(crate) fn served<M: Memory>(
    host: &Host,
    callee: &Application<M>,
    binding: &Binding,
    method: usize,
) -> Result<MethodAt, Status> {
    let wanted = &binding.methods[method];
    let theirs = callee.served_bindings().find(|(_, theirs)| theirs.service == binding.service);
    let unimplemented = || Status::unimplemented(format!("the server has no {}", wanted.name));
    let (number, theirs) = theirs.ok_or_else(unimplemented)?;
    let index = theirs.methods.iter().position(|method| method.name == wanted.name);
    let index = index.ok_or_else(unimplemented)?;
    host.agree((binding, method), (theirs, index))?;
    Ok(MethodAt { binding: number, method: index as u16 })
}
