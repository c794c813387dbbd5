//! Graceful shutdown of an endpoint.

use core::time::Duration;

use petasos_base::Time;

use crate::endpoint::Endpoint;
use crate::sessions::{ClientState, SessionId};

/// How often to check for unfinished work.
const SLICE: Duration = Duration::from_millis(1);
/// How long to turn on so that last packets leave.
const LINGER: Duration = Duration::from_millis(20);
/// How long to stay for clients that have not received their last response and ask for it again,
/// and for those that do not know yet that the server drains: what they send is refused, and not
/// lost. On a busy host, a thread may not run for tens of milliseconds.
const LINGER_FOR_CLIENTS: Duration = Duration::from_millis(100);
/// How long to stay at most for the rest of requests of which a part has come: they are refused
/// once they are complete, and their clients know then that they have not run.
const LINGER_FOR_RESTS: Duration = Duration::from_millis(500);

/// What a shutdown has cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Requests from clients whose handlers had not answered.
    pub requests: usize,
    /// Calls by this endpoint that had not ended. They ended with
    /// [`crate::CallError::SessionClosed`].
    pub calls: usize,
}

impl<S> Endpoint<S> {
    /// Stops accepting requests: new ones are rejected as draining, those that run are finished.
    /// Handlers that [drain themselves](Endpoint::let_handlers_drain) still get theirs.
    pub fn drain(&mut self) {
        self.cx.core.draining = true;
        self.drain_served();
        if !self.cx.core.hooks.handlers_drain {
            self.cx.core.handlers.clear();
        }
    }

    /// How many requests have no answer yet, and how many calls have not ended.
    pub fn unfinished(&self) -> (usize, usize) {
        let running = self.cx.core.servers.iter().map(|(_, entry)| entry.session.running()).sum();
        let calls = self.cx.core.clients.iter().map(|(_, entry)| match &entry.state {
            ClientState::Ready { session, .. } => session.busy() as usize + session.backlog(),
            _ => 0,
        });
        let (external_requests, external_calls) = self.cx.core.external.unfinished();
        let requests = self.cx.core.group_requests.as_deref().map_or(0, |it| it.unfinished());
        let pairs = self.cx.core.group_calls.as_deref().map_or(0, |it| it.unfinished());
        let running: usize = running;
        let calls: usize = calls.sum();
        (running + external_requests + requests, calls + external_calls + pairs)
    }

    /// Ends gracefully: rejects new requests as draining, turns the loop until all handlers
    /// (workers included) have answered and all calls have ended, or `timeout` has passed, then
    /// closes every session and leaves the node. Requests that have come in part get half a second
    /// of that time to be complete, and are rejected. Returns what was cut off.
    pub fn shut_down(&mut self, timeout: Duration) -> Unfinished {
        self.drain();
        let deadline = self.clock().now() + timeout;
        while self.unfinished() != (0, 0) && self.clock().now() < deadline {
            self.run_for(SLICE, |_, _| false);
        }
        let core = &self.cx.core;
        let has_clients = core.servers.iter().next().is_some() || core.group_requests.is_some();
        let linger = if has_clients { LINGER_FOR_CLIENTS } else { LINGER };
        self.linger(linger, deadline);
        if self.is_receiving() {
            let end = deadline.min(self.clock().now() + LINGER_FOR_RESTS);
            while self.is_receiving() && self.clock().now() < end {
                self.run_for(SLICE, |_, _| false);
            }
            // Their clients have to hear that before they hear that the session is closed.
            self.linger(LINGER_FOR_CLIENTS, deadline);
        }
        let (requests, calls) = self.unfinished();
        self.close_all();
        Unfinished { requests, calls }
    }

    /// Turns on for a while, for what is on its way.
    fn linger(&mut self, duration: Duration, deadline: Time) {
        let left = deadline - self.clock().now();
        self.run_for(left.min(duration), |_, _| false);
    }

    /// Whether a request has come in part.
    fn is_receiving(&self) -> bool {
        let mut servers = self.cx.core.servers.iter();
        servers.any(|(_, entry)| entry.session.receiving().next().is_some())
    }

    fn close_all(&mut self) {
        let name = |(index, generation)| SessionId { index, generation };
        let clients = self.cx.core.clients.iter().map(|(index, e)| name((index, e.generation)));
        let groups = self.cx.core.group_calls.as_deref();
        let groups = groups.map_or_else(Vec::new, |calls| calls.sessions().collect());
        let others = self.cx.core.external.sessions().into_iter().chain(groups);
        for session in clients.chain(others).collect::<Vec<_>>() {
            self.close_session(session);
        }
        self.detach();
        self.cx.core.leave_all_groups();
        let servers: Vec<_> = self.cx.core.servers.iter().map(|(index, _)| index).collect();
        for index in servers {
            self.cx.core.drop_server(index);
        }
        // Continuations of the calls that were cut off run in this turn.
        self.run_once();
    }
}
