//! Makes the calls of a phase with a limited number outstanding, and checks the answers.
//!
//! The driver is the endpoint's state. The continuation of each call checks its answer, and makes
//! the next call. The first error stops the phase.

use std::net::SocketAddr;
use std::ops::Range;

use core::time::Duration;

use petasos_base::Time;
use petasos_endpoint::{CallSettings, Completion, Context, Endpoint, Node, Payload, SessionId};
use petasos_report::Histogram;

use super::Measured;
use super::plan::{Ask, Call, Phase};
use crate::client::open_client;
use petasos_cli::connect;
use petasos_cli::failure::Failure;
use petasos_cli::security::SecurityArgs;
use petasos_cli::service::{KEY_BYTES, QUERY_BYTES_MAX, Status};
use petasos_cli::transport::TransportArgs;

/// A client process's half of the demo.
pub struct Driver<'t> {
    endpoint: Endpoint<State<'t>>,
    // Sessions live as long as their node, so it is kept.
    _node: Node,
}

/// The state that continuations work on.
struct State<'t> {
    text: &'t [u8],
    server: SocketAddr,
    sessions: Vec<SessionId>,
    calls: Vec<Call>,
    window: usize,
    /// Calls made so far, and calls that have completed.
    made: usize,
    done: usize,
    begun_at: Vec<Time>,
    latency: Histogram,
    failure: Option<Failure>,
}

impl<'t> Driver<'t> {
    /// Connects to the first of `servers` that is reachable.
    ///
    /// # Errors
    /// The reason why the last one was not reachable.
    pub fn connect(
        transport: &TransportArgs,
        security: &SecurityArgs,
        servers: &[SocketAddr],
        text: &'t [u8],
    ) -> Result<Driver<'t>, Failure> {
        let connect = |server| Driver::connect_to(transport, security, server, text);
        connect::first_that_answers(servers, connect)
    }

    fn connect_to(
        transport: &TransportArgs,
        security: &SecurityArgs,
        server: SocketAddr,
        text: &'t [u8],
    ) -> Result<Driver<'t>, Failure> {
        let state = State {
            text,
            server,
            sessions: Vec::new(),
            calls: Vec::new(),
            window: 0,
            made: 0,
            done: 0,
            begun_at: Vec::new(),
            latency: Histogram::new(),
            failure: None,
        };
        let to = (server, CONNECT_TIMEOUT);
        let (node, mut endpoint) = open_client(transport, security, to, state)?;
        for _ in 0..SESSIONS {
            let session = endpoint.connect_and_wait(server, CONNECT_TIMEOUT);
            let session = session.map_err(|error| connect::failure(server, &error, transport))?;
            endpoint.state_mut().sessions.push(session);
        }
        Ok(Driver { endpoint, _node: node })
    }

    /// The server's address.
    pub fn server(&self) -> SocketAddr {
        self.endpoint.state().server
    }

    /// The number of sessions to the server.
    pub fn sessions(&self) -> usize {
        self.endpoint.state().sessions.len()
    }

    /// Makes all calls of `phase`, and reports the number of completed ones to `progress`.
    ///
    /// # Errors
    /// The first error.
    pub fn run(
        &mut self,
        phase: &Phase,
        mut progress: impl FnMut(u64),
    ) -> Result<Measured, Failure> {
        let (state, cx) = self.endpoint.split();
        let begun_at = cx.now();
        state.begin(phase, begun_at);
        state.make_calls(cx);
        self.endpoint.run(|state, _| {
            progress(state.done as u64);
            state.is_over()
        });
        let ended_at = self.endpoint.clock().now();
        let state = self.endpoint.state_mut();
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        let bytes = state.calls.iter().map(|call| call.bytes.len() as u64).sum();
        Ok(Measured {
            name: phase.name.clone(),
            show: phase.show,
            window: phase.window,
            calls: state.done as u64,
            bytes,
            seconds: (ended_at - begun_at).as_secs_f64(),
            latency: core::mem::take(&mut state.latency),
        })
    }
}

impl State<'_> {
    fn begin(&mut self, phase: &Phase, now: Time) {
        self.calls.clone_from(&phase.calls);
        self.window = phase.window;
        (self.made, self.done) = (0, 0);
        self.begun_at.clear();
        self.begun_at.resize(phase.calls.len(), now);
        self.latency = Histogram::new();
    }

    fn is_over(&self) -> bool {
        self.failure.is_some() || self.done == self.calls.len()
    }

    /// Makes calls until the window is full.
    fn make_calls(&mut self, cx: &mut Context<Self>) {
        while self.failure.is_none()
            && self.made < self.calls.len()
            && self.made - self.done < self.window
        {
            if let Err(failure) = self.make_call(cx) {
                self.failure = Some(failure);
            }
        }
    }

    fn make_call(&mut self, cx: &mut Context<Self>) -> Result<(), Failure> {
        let index = self.made;
        let call = &self.calls[index];
        let mut head = [0; QUERY_BYTES_MAX];
        let (method, head_bytes, value) = match call.ask {
            Ask::Query(query) => (query.method(), query.encode(&mut head), Range::default()),
            Ask::Put(key) => {
                head[..KEY_BYTES].copy_from_slice(&key.to_le_bytes());
                (petasos_cli::service::PUT, KEY_BYTES, call.bytes.clone())
            }
        };
        let request = cx.alloc(head_bytes + value.len());
        let mut request = request.map_err(|_| Failure::new("out of memory for requests"))?;
        request[..head_bytes].copy_from_slice(&head[..head_bytes]);
        request[head_bytes..].copy_from_slice(&self.text[value]);
        let session = self.sessions[index % self.sessions.len()];
        let settings = CallSettings { timeout: Some(CALL_TIMEOUT), ..CallSettings::default() };
        self.begun_at[index] = cx.now();
        cx.enqueue_with(session, method, request, on_answer, index as u64, &settings)
            .map_err(|refused| Failure::of_enqueue(self.server, refused.error))?;
        self.made += 1;
        Ok(())
    }

    /// Compares an answer with the expected one.
    fn check(&self, call: &Call, response: &[u8]) -> Result<(), Failure> {
        let expected = match call.ask {
            Ask::Put(_) => &[],
            Ask::Query(_) => &self.text[call.bytes.clone()],
        };
        match Status::split(response) {
            Some((Status::Done, value)) if value == expected => Ok(()),
            Some((Status::Done, value)) => Err(describe_difference(call, value, expected)),
            Some((Status::Full, _)) => Err(Failure::with_advice(
                "the server has no room for the text",
                "start it with a larger --memory-max",
            )),
            status => Err(Failure::with_advice(
                format_args!(
                    "{} was answered with {:?}",
                    call.ask,
                    status.map(|(status, _)| status)
                ),
                "check that the server is `petasos serve` of this version and used by nobody else",
            )),
        }
    }
}

fn on_answer<'t>(state: &mut State<'t>, cx: &mut Context<State<'t>>, completion: Completion<'_>) {
    let index = completion.tag as usize;
    cx.free(completion.request);
    state.done += 1;
    state.latency.record_ns(cx.now().nanos_since(state.begun_at[index]));
    let outcome = match completion.result {
        Ok(payload) => {
            let outcome = state.check(&state.calls[index], &payload);
            if let Payload::Buffer(buf) = payload {
                cx.free(buf);
            }
            outcome
        }
        Err(error) => {
            let why = cx.session_error(completion.session);
            Err(Failure::of_call(state.server, error, why.as_ref()))
        }
    };
    match outcome {
        Ok(()) => state.make_calls(cx),
        Err(failure) => drop(state.failure.get_or_insert(failure)),
    }
}

/// Describes where a wrong answer differs.
fn describe_difference(call: &Call, value: &[u8], expected: &[u8]) -> Failure {
    let same = value.iter().zip(expected).take_while(|(got, wanted)| got == wanted).count();
    let place = call.bytes.start + same;
    let difference = match (value.get(same), expected.get(same)) {
        (Some(got), Some(wanted)) => format!("byte {place} is {got:#04x} and was {wanted:#04x}"),
        _ => format!("{} bytes came back of {}", value.len(), expected.len()),
    };
    Failure::new(format!("WRONG DATA: {} came back changed: {difference}", call.ask))
}

/// There are several sessions, so that the client can have more calls outstanding than one session
/// has slots.
const SESSIONS: usize = 8;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// For a server that is alive but does not answer. The end of a server is noticed much earlier.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use petasos_cli::service::Query;

    #[test]
    fn a_difference_is_found_where_it_is() {
        let call = Call { ask: Ask::Query(Query::Get { key: 3 }), bytes: 100..104 };
        let line = describe_difference(&call, b"abXd", b"abcd").to_string();
        assert!(line.contains("line 3 came back changed: byte 102 is 0x58 and was 0x63"), "{line}");
        let line = describe_difference(&call, b"ab", b"abcd").to_string();
        assert!(line.ends_with("2 bytes came back of 4"), "{line}");
    }
}
