//! Binds (R2) and probes: asked of servers, and what their answers lead to.

use petasos_base::Time;
use petasos_call::balance::Report;
use petasos_call::{Agreement, BindRequest, CallerSchema, RequestHead, ResponseHead, Status};
use petasos_endpoint::{CallError, Completion, Context};
use petasos_rpc::descriptors::ServiceInfo;
use petasos_rpc::settings::schema_of;

use super::work::{Work, failure_of, with_work};
use crate::agree::agreement;
use crate::buffers::free;
use crate::channels::{Asked, Bind, Channels, Who};
use crate::dispatcher::Dispatcher;
use crate::keys::ChannelSession;

const BIND: u16 = 0;

impl Channels {
    /// Has `who`, who has a slot in a session, wait for the bind of a service, which is sent if
    /// nobody has done so.
    #[cold]
    pub(super) fn wait_for_bind(
        &mut self,
        cx: &mut Context<Dispatcher>,
        session: ChannelSession,
        service: u32,
        who: Who,
    ) {
        let ChannelSession { channel, number, .. } = session;
        let entry = self.entry(channel).expect("who has a slot has a channel");
        let of = entry.sessions[number as usize].as_mut().expect("who has a slot knows it");
        of.unbound.push((service, who));
        let at = service as usize;
        if of.binds.len() <= at {
            of.binds.resize_with(at + 1, || Bind::Unasked);
        }
        if !matches!(of.binds[at], Bind::Unasked) {
            return;
        }
        of.binds[at] = Bind::Asked;
        let info = entry.info.service(service);
        self.ask_server(cx, session, Some(service), Some(info));
    }

    /// Asks a server about itself with a bind (Prequal).
    pub(super) fn probe(&mut self, cx: &mut Context<Dispatcher>, channel: u32, number: u32) {
        let entry = self.entry(channel).expect("its core has asked for this");
        let session = entry.sessions[number as usize].as_ref().expect("the core picks sessions");
        let session = ChannelSession { channel, number, id: session.id };
        let first = entry.info.first_service();
        self.ask_server(cx, session, None, first);
    }

    fn ask_server(
        &mut self,
        cx: &mut Context<Dispatcher>,
        session: ChannelSession,
        service: Option<u32>,
        info: Option<&'static ServiceInfo>,
    ) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let asked = Asked { session, service, since: cx.now() };
        self.asked.insert(tag, asked);
        let mut bytes = RequestHead::default().to_bytes().to_vec();
        match info {
            Some(info) => {
                let CallerSchema { layout, hash, .. } = schema_of(info);
                BindRequest { layout, hash, name: info.name }.write(&mut bytes);
            }
            // A probe of a channel without services: the refusal tells the load as well.
            None => BindRequest { layout: 0, hash: [0; 16], name: "" }.write(&mut bytes),
        }
        let begun = cx.enqueue_request(session.id, BIND, bytes.as_slice().into(), on_bound, tag);
        if begun.is_err() {
            self.asked.remove(&tag);
            self.losing.push(session);
        }
    }

    fn probed(&mut self, asked: &Asked, report: Option<Report>, now: Time) {
        let channel = asked.session.channel;
        let Some(index) = self.index_of(asked.session) else { return };
        let Channels { list, rng, .. } = self;
        let entry = list[channel as usize].as_mut().expect("it was just there");
        entry.core.handle_probed(index, report, now, rng);
        self.mark_dirty(channel);
    }
}

/// The continuation of binds and probes.
fn on_bound(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, done: Completion<'_>) {
    with_work(&mut dispatcher.parts, |work| work.on_bound(cx, done));
}

/// What a probe's answer tells of its server (R7).
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
            let info = info.as_ref().zip(asked.service).map(|(info, of)| info.service(of));
            let known = info.map(|info| agreement(info, &payload));
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

    /// A bind has ended: those that waited for it go on, or fail.
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
        let error = match answer {
            Ok(known) => {
                session.binds[service as usize] = Bind::Known(known);
                None
            }
            Err(error) => {
                session.binds[service as usize] = Bind::Unasked;
                Some(error)
            }
        };
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
            match error {
                None => self.go(cx, name, who),
                Some(error) => self.not_bound(cx, name, who, error),
            }
        }
    }

    /// Somebody with a slot has nothing to do with it: the bind has failed.
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
