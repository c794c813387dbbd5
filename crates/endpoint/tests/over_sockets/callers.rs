//! A loop that calls for other threads, and how these ask it to.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};

use petasos_endpoint::{
    CallError, Completion, Context, Endpoint, EndpointConfig, MsgBuf, Node, Notifier, Polling,
    SessionId, Time,
};
use tokio::sync::oneshot;

use crate::common::*;

type Answer = oneshot::Sender<Outcome>;

/// Any thread's way to the loop. Clones lead to the same one.
#[derive(Clone)]
pub struct Asker {
    asked: Sender<(Vec<u8>, Answer)>,
    pub notifier: Notifier,
}

impl Asker {
    /// Asks for an echo.
    pub fn ask(&self, bytes: &[u8]) -> oneshot::Receiver<Outcome> {
        let (answer, answered) = oneshot::channel();
        // If the loop is gone, the answer's sender is, too.
        let _ = self.asked.send((bytes.to_vec(), answer));
        self.notifier.notify();
        answered
    }
}

/// The loop's state.
pub struct Caller {
    pub session: Option<SessionId>,
    pub ended: Vec<Result<(), CallError>>,
    asked: Receiver<(Vec<u8>, Answer)>,
    waiting: HashMap<u64, Answer>,
    next_tag: u64,
}

impl Caller {
    pub fn endpoint(node: &Node, polling: Polling) -> (Endpoint<Caller>, Asker) {
        let (ask, asked) = channel();
        let (waiting, ended) = (HashMap::new(), Vec::new());
        let caller = Caller { session: None, ended, asked, waiting, next_tag: 0 };
        let config = EndpointConfig { polling, ..EndpointConfig::default() };
        let mut endpoint = endpoint_at(localhost(), config, caller);
        endpoint.attach(node).expect("the node runs");
        endpoint.on_turn(start_calls);
        let notifier = endpoint.notifier().expect("descriptors");
        (endpoint, Asker { asked: ask, notifier })
    }
}

pub fn connect(endpoint: &mut Endpoint<Caller>, server: SocketAddr) {
    let session = endpoint.connect_and_wait(server, PATIENCE).expect("the server is up");
    endpoint.state_mut().session = Some(session);
}

/// The loop's own work of a turn.
fn start_calls(caller: &mut Caller, cx: &mut Context<Caller>) -> Time {
    while let Ok((bytes, answer)) = caller.asked.try_recv() {
        let session = caller.session.expect("nobody asks before there is one");
        let (tag, request) = (caller.next_tag, MsgBuf::from_slice(&bytes));
        let call = cx.enqueue_request(session, ECHO, request, on_answer, tag);
        call.expect("there is room");
        caller.next_tag += 1;
        caller.waiting.insert(tag, answer);
    }
    Time::NEVER
}

fn on_answer(caller: &mut Caller, cx: &mut Context<Caller>, done: Completion<'_>) {
    let answer = caller.waiting.remove(&done.tag).expect("a call ends once");
    // Whoever has stopped to wait needs no answer.
    let _ = answer.send(done.result.map(|payload| payload.to_vec()));
    cx.free(done.request);
}
