//! A client that counts how each of its calls ends, and servers that count how often each has run.

use petasos_endpoint::{Completion, Context, Endpoint, Payload, Request, RequestHandle};

pub(crate) const ECHO: u16 = 1;
pub(crate) const HOLD: u16 = 2;
pub(crate) const LONG: u16 = 3;
/// No server has a handler for it.
const UNKNOWN: u16 = 999;
/// Of those, each is chosen as often.
pub(crate) const METHODS: [u16; 4] = [ECHO, HOLD, LONG, UNKNOWN];
/// Calls of one input: a request begins with its call's number.
pub(crate) const CALLS_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Client {
    /// How often each call has ended.
    pub(crate) ends: Vec<u32>,
}

impl Client {
    /// Fails unless every call has ended once.
    pub(crate) fn check(&self) {
        assert!(self.ends.iter().all(|count| *count == 1), "calls end once: {:?}", self.ends);
    }
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) held: Vec<RequestHandle>,
    /// How often each call's handler ran.
    pub(crate) runs: Vec<u32>,
}

pub(crate) fn register(server: &mut Endpoint<Server>) {
    server.register(ECHO, echo);
    server.register(HOLD, hold);
    server.register(LONG, long);
}

fn ran(server: &mut Server, request: &[u8]) {
    let call = usize::from(*request.first().unwrap_or(&u8::MAX));
    server.runs.resize(256, 0);
    server.runs[call] += 1;
}

fn echo(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    ran(server, &request.payload);
    cx.respond_with(request.handle, &request.payload);
    free(cx, request.payload);
}

fn hold(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    ran(server, &request.payload);
    server.held.push(request.handle);
    free(cx, request.payload);
}

/// Answers with 256 times as many bytes as the request's second says.
fn long(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    ran(server, &request.payload);
    let len = usize::from(*request.payload.get(1).unwrap_or(&0)) * 256;
    if let Ok(response) = cx.response_buffer(&request.handle, len) {
        cx.respond(request.handle, response);
    }
    free(cx, request.payload);
}

fn free<S>(cx: &mut Context<S>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}

pub(crate) fn ended(client: &mut Client, cx: &mut Context<Client>, completion: Completion<'_>) {
    cx.free(completion.request);
    if let Ok(payload) = completion.result {
        free(cx, payload);
    }
    client.ends[completion.tag as usize] += 1;
}

/// Answers one of the requests that are held, if there is one.
pub(crate) fn answer_held(server: &mut Endpoint<Server>, response: &[u8]) -> bool {
    let held = server.state_mut().held.pop();
    let is_one = held.is_some();
    if let Some(handle) = held {
        server.context().respond_with(handle, response);
    }
    is_one
}
