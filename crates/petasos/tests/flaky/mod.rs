//! A service that fails as it is told, and notes what reaches it.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use petasos::{Code, Metadata, Request, Response, Server, ServerBuilder, Status};

use crate::greeter::generated::{Blob, Greeter, GreeterServer, Greeting, Name};
use crate::greeter::greeting;

/// What a handler does.
#[derive(Clone, Debug)]
pub enum Act {
    Fail(Status),
    /// Waits until the caller goes away.
    Hold,
}

/// What has reached the service.
#[derive(Clone, Debug)]
pub struct Reached {
    /// `grpc-previous-rpc-attempts`.
    pub previous: Option<String>,
    pub from: Option<String>,
    pub timeout: Option<Duration>,
}

#[derive(Default)]
pub struct State {
    /// For the next requests; those after them succeed, or do as `always` says.
    pub next: VecDeque<Act>,
    pub always: Option<Act>,
    pub reached: Vec<Reached>,
    pub running: u64,
    /// Handlers that were dropped before they were done.
    pub dropped: u64,
}

#[derive(Clone, Default)]
pub struct Flaky(Arc<Mutex<State>>);

/// Counts the handlers that are dropped.
struct Running<'a>(&'a Flaky, bool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running -= 1;
        state.dropped += u64::from(!self.1);
    }
}

impl Flaky {
    /// Fails with these, then succeeds.
    pub fn failing(codes: &[Code]) -> Flaky {
        let flaky = Flaky::default();
        flaky.state().next.extend(codes.iter().map(|code| fail(*code)));
        flaky
    }

    pub fn always(act: Act) -> Flaky {
        let flaky = Flaky::default();
        flaky.state().always = Some(act);
        flaky
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics under the lock")
    }

    pub fn count(&self) -> usize {
        self.state().reached.len()
    }

    /// How many attempts each request said went before it.
    pub fn previous(&self) -> Vec<Option<String>> {
        self.state().reached.iter().map(|reached| reached.previous.clone()).collect()
    }

    pub fn builder(&self) -> ServerBuilder {
        Server::builder().add(GreeterServer::new(self.clone()))
    }

    pub fn start(&self) -> Server {
        self.builder().listen("127.0.0.1:0").start().expect("loopback has ports")
    }

    async fn run(&self, metadata: &Metadata, timeout: Option<Duration>) -> Result<(), Status> {
        let text = |key| metadata.get(key).map(str::to_owned);
        let (previous, from) = (text("grpc-previous-rpc-attempts"), text("from"));
        let act = {
            let mut state = self.state();
            state.running += 1;
            state.reached.push(Reached { previous, from, timeout });
            state.next.pop_front().or_else(|| state.always.clone())
        };
        let mut running = Running(self, false);
        let outcome = match act {
            None => Ok(()),
            Some(Act::Fail(status)) => Err(status),
            Some(Act::Hold) => std::future::pending().await,
        };
        running.1 = true;
        outcome
    }
}

impl Greeter for Flaky {
    async fn greet(&self, request: Request<Name>) -> Result<Response<Greeting>, Status> {
        self.run(request.metadata(), request.timeout()).await?;
        Ok(Response::new(greeting(request.name())))
    }

    async fn echo(&self, request: Request<Blob>) -> Result<Response<Blob>, Status> {
        self.run(request.metadata(), request.timeout()).await?;
        Ok(Response::new(request.into_message()))
    }
}

pub fn fail(code: Code) -> Act {
    Act::Fail(Status::new(code, "it fails on purpose"))
}

/// A failure with the server's wish about the next attempt.
pub fn push_back(code: Code, value: &str) -> Act {
    let mut status = Status::new(code, "it fails on purpose");
    status.metadata_mut().append("grpc-retry-pushback-ms", value).expect("it may be said");
    Act::Fail(status)
}

/// A service config with this policy for all methods, and what else is in it.
pub fn config(policy: &str, more: &str) -> String {
    format!(r#"{{"methodConfig": [{{"name": [{{}}], {policy}}}]{more}}}"#)
}

/// Retries of what fails with one of `codes`, after `backoff` seconds each.
pub fn retries(attempts: u32, backoff: &str, codes: &str) -> String {
    format!(
        r#""retryPolicy": {{"maxAttempts": {attempts}, "initialBackoff": "{backoff}s",
            "maxBackoff": "{backoff}s", "backoffMultiplier": 1,
            "retryableStatusCodes": [{codes}]}}"#
    )
}
