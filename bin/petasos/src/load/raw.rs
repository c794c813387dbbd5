//! Methods of `petasos serve`, and any others that are known by their numbers, with plain bytes.

use core::time::Duration;
use std::net::SocketAddr;

use petasos_cli::connect;
use petasos_cli::failed::Failed;
use petasos_cli::failure::Failure;
use petasos_cli::service;
use petasos_endpoint::{CallSettings, Completion, Context, Endpoint, Node, Payload, SessionId};
use petasos_load::{Answers, Target, TargetError};

use super::args::LoadArgs;
use crate::client::{open_client, resolve};

/// Sessions without --connections. Each has as many calls outstanding as it has slots; others wait
/// in the client.
const SESSIONS: u32 = 8;

/// A call as it is made each time.
pub struct Call {
    method: u16,
    request: Vec<u8>,
    servers: Vec<SocketAddr>,
}

impl Call {
    /// Of the method that `args` name, if they give its number, or `echo`.
    pub fn new(args: &LoadArgs) -> Result<Option<Call>, Failed> {
        let Some(name) = args.request.first() else { return Ok(None) };
        let method = if name == "echo" { Some(service::ECHO) } else { name.parse().ok() };
        let Some(method) = method else { return Ok(None) };
        let text = match &args.request[1..] {
            [] => "",
            [text] => text,
            _ => {
                return Err(Failed::new("a method takes one text, and more are given")
                    .with_advice("put it into quotes"));
            }
        };
        if !args.server.headers.is_empty() {
            return Err(Failed::new("plain bytes have no headers")
                .with_advice("leave -H away, or call a typed service"));
        }
        let address = args.server.address.strip_prefix("petasos://");
        let servers = resolve(address.unwrap_or(&args.server.address))?;
        Ok(Some(Call { method, request: text.as_bytes().to_vec(), servers }))
    }

    /// Connects to the first server that is reachable.
    pub fn connect(&self, args: &LoadArgs) -> Result<Box<dyn Target + '_>, Failed> {
        let to = |server| self.connect_to(args, server);
        Ok(Box::new(connect::first_that_answers(&self.servers, to)?))
    }

    fn connect_to(&self, args: &LoadArgs, server: SocketAddr) -> Result<Raw<'_>, Failure> {
        let (transport, timeout) = (&args.transport, args.server.connect_timeout);
        let security = &args.server.security;
        let (node, mut endpoint) = open_client(transport, security, (server, timeout), Vec::new())?;
        let mut sessions = Vec::new();
        for _ in 0..args.connections.unwrap_or(SESSIONS) {
            let session = endpoint.connect_and_wait(server, timeout);
            sessions.push(session.map_err(|error| connect::failure(server, &error, transport))?);
        }
        let settings = CallSettings { timeout: args.server.timeout, ..CallSettings::default() };
        Ok(Raw { call: self, server, endpoint, sessions, next: 0, settings, _node: node })
    }
}

/// Calls that have ended since they were last looked at.
type Ended = Vec<(u32, Result<(), Failure>)>;

/// Sessions to a server.
struct Raw<'a> {
    call: &'a Call,
    server: SocketAddr,
    endpoint: Endpoint<Ended>,
    sessions: Vec<SessionId>,
    /// The session of the next call.
    next: usize,
    settings: CallSettings,
    // Sessions live as long as their node, so it is kept.
    _node: Node,
}

impl Raw<'_> {
    fn enqueue(&mut self, slot: u32) -> Result<(), Failure> {
        let session = self.sessions[self.next];
        self.next = (self.next + 1) % self.sessions.len();
        let cx = self.endpoint.context();
        let request = cx.alloc(self.call.request.len());
        let mut request = request.map_err(|_| Failure::new("out of memory for requests"))?;
        request.copy_from_slice(&self.call.request);
        cx.enqueue_with(session, self.call.method, request, on_answer, slot.into(), &self.settings)
            .map_err(|refused| Failure::of_enqueue(self.server, refused.error))?;
        self.endpoint.send_now();
        Ok(())
    }

    /// A failure, which the session may explain.
    fn told(&mut self, failure: &Failure) -> String {
        let mut errors = self
            .sessions
            .iter()
            .filter_map(|session| self.endpoint.context().session_error(*session));
        errors.next().map_or_else(
            || failure.to_string(),
            |error| Failure::of_session(self.server, &error).to_string(),
        )
    }
}

impl Target for Raw<'_> {
    fn outstanding_max(&self) -> usize {
        usize::MAX
    }

    fn send(&mut self, slot: u32) -> Result<(), TargetError> {
        if let Err(failure) = self.enqueue(slot) {
            self.endpoint.state_mut().push((slot, Err(failure)));
        }
        Ok(())
    }

    fn poll(&mut self, answers: &mut Answers) -> Result<(), TargetError> {
        self.endpoint.run_once();
        let mut ended = core::mem::take(self.endpoint.state_mut());
        for (slot, result) in ended.drain(..) {
            answers.push(slot, result.map_err(|failure| self.told(&failure)));
        }
        // Its room is kept.
        *self.endpoint.state_mut() = ended;
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) {
        self.endpoint.run_for(timeout, |ended, _| !ended.is_empty());
    }
}

fn on_answer(ended: &mut Ended, cx: &mut Context<Ended>, completion: Completion<'_>) {
    let result = match completion.result {
        Ok(Payload::Buffer(buf)) => {
            cx.free(buf);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(error.to_string())),
    };
    cx.free(completion.request);
    ended.push((completion.tag as u32, result));
}
