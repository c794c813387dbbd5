//! Binds (R2) and probes: how they are sent to servers, and how their answers are handled.

use petasos_base::Time;
use petasos_call::balance::Report;
use petasos_call::{
    Agreement, BindRequest, CallerSchema, Code, Failure, RequestHead, ResponseHead, Status,
};
use petasos_endpoint::{CallError, Completion, Context, SessionId};
use petasos_rpc::descriptors::ServiceRef;
use petasos_rpc::settings::schema_of;

use super::managed;
use super::work::{Work, failure_of, with_work};
use crate::agree::agreement;
use crate::buffers::free;
use crate::channels::{Asked, Bind, Channels, Who};
use crate::dispatcher::Dispatcher;
use crate::keys::ChannelSession;
use crate::retries::Ended;

const BIND: u16 = 0;

impl Channels {
    /// Makes `who`, which has a slot in a session, wait until a service is bound. Sends the bind
    /// unless that was already done.
    ///
    /// # Errors
    /// The channel has let go of the service: `who` does not wait, and still has the slot.
    #[cold]
    pub(super) fn wait_for_bind(
        &mut self,
        cx: &mut Context<Dispatcher>,
        session: ChannelSession,
        service: u32,
        who: Who,
    ) -> Result<(), Status> {
        let ChannelSession { channel, number, .. } = session;
        let entry = self.entry(channel).expect("a call with a slot has a channel");
        let called = entry.info.service(service).ok_or_else(let_go)?;
        let of =
            entry.sessions[number as usize].as_mut().expect("a call with a slot has a session");
        of.unbound.push((service, who));
        let at = service as usize;
        if of.binds.len() <= at {
            of.binds.resize_with(at + 1, || Bind::Unasked);
        }
        if !matches!(of.binds[at], Bind::Unasked) {
            return Ok(());
        }
        of.binds[at] = Bind::Asked;
        self.ask_server(cx, session, Some(service), Some(&called));
        Ok(())
    }

    /// Sends a bind as a probe of a server's load (Prequal).
    pub(super) fn probe(&mut self, cx: &mut Context<Dispatcher>, channel: u32, number: u32) {
        let entry = self.entry(channel).expect("only an existing channel's core asks");
        let session = entry.sessions[number as usize].as_ref().expect("the core picks sessions");
        let session = ChannelSession { channel, number, id: session.id };
        let first = entry.info.first_service();
        self.ask_server(cx, session, None, first.as_ref());
    }

    fn ask_server(
        &mut self,
        cx: &mut Context<Dispatcher>,
        session: ChannelSession,
        service: Option<u32>,
        called: Option<&ServiceRef>,
    ) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let asked = Asked { session, service, since: cx.now() };
        self.asked.insert(tag, asked);
        if session.id.is_external()
            && let Some(called) = called
        {
            managed::describe(called);
        }
        let mut bytes = RequestHead::default().to_bytes().to_vec();
        match called {
            Some(called) => {
                let CallerSchema { layout, hash, .. } = schema_of(called);
                BindRequest { layout, hash, name: called.name() }.write(&mut bytes);
            }
            // A probe on a channel without services. The server refuses it, and its refusal reports
            // the load as well.
            None => BindRequest { layout: 0, hash: [0; 16], name: "" }.write(&mut bytes),
        }
        let of_router = self.entry(session.channel).and_then(|entry| {
            let session = entry.session(session.number, session.id)?;
            session.router
        });
        let to = of_router.unwrap_or(session.id);
        let begun = cx.enqueue_request(to, BIND, bytes.as_slice().into(), on_bound, tag);
        if begun.is_err() {
            self.asked.remove(&tag);
            self.losing.push(session);
        }
    }

    fn probed(&mut self, asked: &Asked, report: Option<Report>, now: Time) {
        let channel = asked.session.channel;
        let Some(index) = self.index_of(asked.session) else { return };
        let Channels { list, rng, .. } = self;
        let entry = list[channel as usize].as_mut().expect("the channel was just looked up");
        entry.core.handle_probed(index, report, now, rng);
        self.mark_dirty(channel);
    }
}

/// The status of calls of a service that the channel has let go of, in a session that has not bound
/// it.
#[cold]
fn let_go() -> Status {
    Status::failed_precondition("the channel has let go of the service")
}

/// Called when a bind or probe has ended.
fn on_bound(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, done: Completion<'_>) {
    with_work(&mut dispatcher.parts, |work| work.on_bound(cx, done));
}

/// What a bind's answer means. How a call to a group is routed is a part of it, which the short way
/// of usual calls leaves out.
fn agreed(called: &ServiceRef, session: SessionId, answer: &[u8]) -> Result<Agreement, Status> {
    let agreed = agreement(called, &schema_of(called), answer)?;
    Ok(if session.is_group() { agreed.without_usual() } else { agreed })
}

/// The load report in a probe's answer (R7).
fn report_of(answer: &[u8], since: Time, now: Time) -> Option<Report> {
    let head = ResponseHead::parse(*answer.first_chunk()?).ok()?;
    Some(Report { latency: now - since, load: Some(head.load) })
}

impl Work<'_> {
    fn on_bound(&mut self, cx: &mut Context<Dispatcher>, done: Completion<'_>) {
        let asked = self.channels.asked.remove(&done.tag).expect("each bind ends once");
        let info = self.channels.entry(asked.session.channel).map(|entry| entry.info.clone());
        let answer = done.result.map(|payload| {
            let report = report_of(&payload, asked.since, cx.now());
            let called = info.as_ref().zip(asked.service).map(|(info, of)| info.service(of));
            let known = called.map(|called| {
                let called = called.ok_or_else(let_go)?;
                agreed(&called, asked.session.id, &payload)
            });
            free(cx, payload);
            (report, known)
        });
        match (asked.service, answer) {
            (None, answer) => {
                let report = answer.ok().and_then(|(report, _)| report);
                self.channels.probed(&asked, report, cx.now());
            }
            (Some(service), Ok((_, Some(known)))) => self.bound(cx, &asked, service, Ok(known)),
            (Some(_), Ok((_, None))) => {}
            (Some(service), Err(error)) => self.bound(cx, &asked, service, Err(error)),
        }
    }

    /// Handles the end of a bind: the calls that waited for it continue, or fail.
    fn bound(
        &mut self,
        cx: &mut Context<Dispatcher>,
        asked: &Asked,
        service: u32,
        answer: Result<Result<Agreement, Status>, CallError>,
    ) {
        let name @ ChannelSession { channel, number, id } = asked.session;
        let Some(entry) = self.channels.entry(channel) else { return };
        let Some(session) = entry.session(number, id) else { return };
        // What was refused is asked for again: the server may have it by then.
        let (next, error, refusal) = match answer {
            Ok(Err(status)) => (Bind::Unasked, None, Some(status)),
            Ok(Ok(agreement)) => (Bind::Known(agreement), None, None),
            Err(error) => (Bind::Unasked, Some(error), None),
        };
        session.binds[service as usize] = next;
        let of_it = session.unbound.extract_if(.., |(of, _)| *of == service);
        let unbound: Vec<Who> = of_it.map(|(_, who)| who).collect();
        match error {
            Some(CallError::PeerFailed | CallError::SessionClosed | CallError::NotSent) => {
                session.unbound.extend(unbound.into_iter().map(|who| (service, who)));
                return self.lose(name, cx.now());
            }
            Some(CallError::Draining) => self.channels.drained(name, cx.now()),
            _ => {}
        }
        self.channels.mark_dirty(channel);
        for who in unbound {
            match (error, &refusal) {
                (Some(error), _) => self.not_bound(cx, name, who, error),
                (None, Some(status)) if id.is_group() && status.code() == Code::Unavailable => {
                    self.bound_by_nobody(cx, name, who, status.clone());
                }
                (None, Some(status)) => self.bind_refused(cx, name, who, status.clone()),
                (None, None) => self.go(cx, name, who),
            }
        }
    }

    /// Handles a bind that the server has refused, or that cannot be sent: a call with a slot ends
    /// with this status.
    #[cold]
    pub(super) fn bind_refused(
        &mut self,
        cx: &mut Context<Dispatcher>,
        session: ChannelSession,
        who: Who,
        status: Status,
    ) {
        self.channels.release(session, None, cx.now());
        self.fail(who, status);
    }

    /// Handles a bind that a router has refused since no worker has joined yet (RT31): a call that
    /// waits for ready is sent again later.
    #[cold]
    fn bound_by_nobody(
        &mut self,
        cx: &mut Context<Dispatcher>,
        session: ChannelSession,
        who: Who,
        status: Status,
    ) {
        let place = match who {
            Who::Call(call) if self.calls.is_waiting(call) => call.place(),
            _ => return self.bind_refused(cx, session, who, status),
        };
        if !self.calls.head(place).wait_for_ready {
            return self.bind_refused(cx, session, who, status);
        }
        self.channels.release(session, None, cx.now());
        let failure = Some(Failure::NoWorker);
        let request = self.calls.take_back(place);
        let ended = Ended { outcome: Err(status), failure, request, session: None };
        self.on_attempt_end(cx, place, ended);
    }

    /// Handles a bind that failed: a call with a slot cannot use it.
    #[cold]
    fn not_bound(
        &mut self,
        cx: &mut Context<Dispatcher>,
        session: ChannelSession,
        who: Who,
        error: CallError,
    ) {
        self.channels.release(session, None, cx.now());
        if error == CallError::Draining {
            return self.start_anew(who);
        }
        self.fail(who, failure_of(error).status());
    }
}
