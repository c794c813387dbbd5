//! How the harness's two ends act on what the protocol tells them.

use std::rc::Rc;

use petasos_wire::{Packet, RawPacket, RejectCode};

use super::link::bytes_of;
use super::pair::{Job, PAYLOAD, Pair};
use super::plan::{Answer, Buffer, Outcome, request_of, response_of};
use crate::{RequestAction, Respond, ResponseAction};

fn store(message: &mut [u8], offset: u32, payload: &[u8]) {
    let offset = offset as usize;
    message[offset..offset + payload.len()].copy_from_slice(payload);
}

impl Pair {
    pub(super) fn client_packet(&mut self, bytes: &[u8]) {
        let raw = RawPacket::read(bytes).expect("only well-formed packets arrive");
        let packet = Packet::parse(bytes).expect("only well-formed packets arrive");
        let marked = self.is_marked(&packet);
        if self.config.short_cuts
            && !marked
            && let Some((context, payload)) = self.client.take_short(&raw, self.now)
        {
            self.send_done();
            self.check_response(context.method, payload);
            return self.end(context, Outcome::Answered);
        }
        let packet = packet.response_without_padding();
        match self.client.handle_packet(&packet, marked, self.now) {
            ResponseAction::None => {}
            ResponseAction::Complete { slot } => {
                let context = self.client.complete(slot);
                self.send_done();
                self.check_response(context.method, packet.payload());
                self.end(context, Outcome::Answered);
            }
            ResponseAction::Begin { slot, bytes } => {
                if self.config.bound.is_some() {
                    self.client.join(&mut self.path);
                }
                let context = self.client.context_mut(slot);
                let max = self.plans[usize::from(context.method)].response_bytes_max;
                assert!(bytes <= max, "no more memory is asked for than the call allows");
                context.response = vec![0; bytes as usize];
                store(&mut context.response, 0, packet.payload());
            }
            ResponseAction::Store { slot, offset, last } => {
                store(&mut self.client.context_mut(slot).response, offset, packet.payload());
                if last {
                    self.finish(slot);
                }
            }
            ResponseAction::Overlong(context, cancel) => {
                self.send_cancel(Some(cancel));
                self.end(context, Outcome::Overlong);
            }
            ResponseAction::Rejected(context, code) => {
                self.send_done();
                self.end(context, Outcome::Rejected(code));
            }
            ResponseAction::SessionReset => {
                for (context, _) in self.client.fail_all() {
                    self.end(context, Outcome::Reset);
                }
            }
        }
    }

    /// A pair's client always says that it has the response, or the rejection (RT12).
    fn send_done(&mut self) {
        if self.config.bound.is_some() {
            let done = self.client.done(0);
            self.network.send(bytes_of(done, &[]), self.now);
        }
    }

    fn finish(&mut self, slot: u32) {
        let (context, done) = self.client.finish(slot);
        if self.config.done || self.config.bound.is_some() {
            self.network.send(bytes_of(done, &[]), self.now);
        }
        self.check_response(context.method, &context.response);
        self.end(context, Outcome::Answered);
    }

    fn check_response(&self, method: u16, response: &[u8]) {
        let bytes = self.plans[usize::from(method)].response_bytes;
        let right = response == response_of(method, bytes);
        assert!(right || self.config.hostile, "the response's bytes are right");
    }

    pub(super) fn server_packet(&mut self, bytes: &[u8]) {
        let raw = RawPacket::read(bytes).expect("only well-formed packets arrive");
        let packet = Packet::parse(bytes).expect("only well-formed packets arrive");
        let marked = self.is_marked(&packet);
        if self.config.short_cuts
            && let Some(packet) = self.server.take_short(&raw, marked)
        {
            let slot = self.server.slot_of(packet.request());
            return self.run_handler(slot, packet.payload());
        }
        let packet = packet.request_without_padding();
        let payload = packet.payload();
        match self.server.handle_packet(&packet, marked) {
            RequestAction::None => {}
            RequestAction::Deliver => {
                let slot = self.server.slot_of(packet.request());
                self.run_handler(slot, payload);
            }
            RequestAction::Begin { slot, bytes, offset } => {
                self.begin(slot, bytes, offset, payload);
            }
            RequestAction::Store { slot, offset, last } => {
                let buffer = self.server.kept_mut(slot).as_mut();
                let request = &mut buffer.expect("the request has begun").bytes;
                store(request, offset, payload);
                if last {
                    let request = core::mem::take(request);
                    self.run_handler(slot, &request);
                }
            }
            RequestAction::Repeat { slot } => self.send_response(slot, 0),
            RequestAction::Pull { slot, start, end } => {
                for index in start..end {
                    self.send_response(slot, index);
                }
            }
            RequestAction::Reject(reject) => {
                self.network.send(bytes_of(reject.header, &[]), self.now);
            }
            RequestAction::Released { slot } => *self.server.kept_mut(slot) = None,
        }
    }

    fn begin(&mut self, slot: u32, bytes: u32, offset: u32, payload: &[u8]) {
        assert!(bytes <= self.config.request_bytes_max, "no more memory than agreed");
        if !self.config.room {
            let request = self.server.request_in(slot);
            return self.reject(request, RejectCode::Overloaded);
        }
        let mut request = vec![0; bytes as usize];
        store(&mut request, offset, payload);
        self.put_buffer(slot, request);
    }

    fn put_buffer(&mut self, slot: u32, bytes: Vec<u8>) {
        let living = Rc::clone(&self.living);
        *self.server.kept_mut(slot) = Some(Buffer { bytes, _living: living });
    }

    pub(super) fn run_handler(&mut self, slot: u32, request_bytes: &[u8]) {
        self.run_method(slot, self.server.method_in(slot), request_bytes);
    }

    pub(super) fn run_method(&mut self, slot: u32, method: u16, request_bytes: &[u8]) {
        let request = self.server.request_in(slot);
        let Some(plan) = self.plans.get(usize::from(method)).copied() else {
            return self.reject(request, RejectCode::UnknownMethod);
        };
        if !self.config.hostile {
            self.runs[usize::from(method)] += 1;
            assert_eq!(self.runs[usize::from(method)], 1, "a handler runs at most once");
            assert!(request_bytes == request_of(method, plan.request_bytes), "the right bytes");
        }
        match plan.answer {
            Answer::Now => self.respond(Job { slot, request, method }),
            Answer::After(ns) => {
                self.sequence += 1;
                let due = (self.now.plus_nanos(ns), self.sequence);
                self.jobs.insert(due, Job { slot, request, method });
            }
            Answer::Never => {}
            Answer::Reject(code) => self.reject(request, code),
        }
    }

    pub(super) fn respond(&mut self, job: Job) {
        let bytes = self.plans[usize::from(job.method)].response_bytes;
        if self.config.short_cuts
            && let Some((header, kept)) = self.server.respond_short(job.request, bytes)
        {
            let response = response_of(job.method, bytes);
            self.network.send(bytes_of(header, &response), self.now);
            *kept = Some(Buffer { bytes: response, _living: Rc::clone(&self.living) });
            return;
        }
        match self.server.respond(job.request, bytes) {
            Respond::Send => {
                self.put_buffer(job.slot, response_of(job.method, bytes));
                self.send_response(job.slot, 0);
            }
            Respond::Stale => {}
            Respond::TooLong => self.reject(job.request, RejectCode::HandlerFailed),
        }
    }

    fn reject(&mut self, request: u64, code: RejectCode) {
        if let Some(reject) = self.server.reject(request, code) {
            self.network.send(bytes_of(reject.header, &[]), self.now);
        }
    }

    fn send_response(&mut self, slot: u32, index: u32) {
        let header = self.server.response_header(slot, index);
        let request = self.server.request_in(slot);
        let response = self.server.response_of(slot, request).and_then(Option::as_ref);
        let response = response.expect("the response is kept");
        let start = (index * PAYLOAD) as usize;
        let end = response.bytes.len().min(start + PAYLOAD as usize);
        let bytes = bytes_of(header, &response.bytes[start..end]);
        self.network.send(bytes, self.now);
    }
}
