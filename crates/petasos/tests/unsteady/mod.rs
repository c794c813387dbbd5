//! Streams whose handlers fail as they are told, and note what reaches them.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use petasos::{Code, Metadata, Request, Response, Sender, Status, Streaming};

use crate::flow::Service;
use crate::flow::generated::{Chunk, Flow, Plan, Sum};

pub const FOREVER: u32 = u32::MAX;

/// How a handler fails.
#[derive(Clone, Debug)]
pub struct Act {
    /// After so many requests were read, or all; never if that is [`FOREVER`].
    pub read: u32,
    /// Behind initial metadata.
    pub has_head: bool,
    pub status: Status,
}

#[derive(Default)]
pub struct State {
    /// For the next calls; those after them go well, or do as `always` says.
    pub next: VecDeque<Act>,
    pub always: Option<Act>,
    /// `grpc-previous-rpc-attempts` of each.
    pub previous: Vec<Option<String>>,
}

#[derive(Clone, Default)]
pub struct Unsteady {
    pub service: Service,
    state: Arc<Mutex<State>>,
}

pub fn fail(code: Code) -> Act {
    Act { read: 0, has_head: false, status: Status::new(code, "it fails on purpose") }
}

/// A failure with the server's wish about the next attempt.
pub fn push_back(code: Code, value: &str) -> Act {
    let mut act = fail(code);
    act.status.metadata_mut().append("grpc-retry-pushback-ms", value).expect("it may be said");
    act
}

impl Unsteady {
    pub fn failing(acts: impl IntoIterator<Item = Act>) -> Unsteady {
        let unsteady = Unsteady::default();
        unsteady.state().next.extend(acts);
        unsteady
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics under the lock")
    }

    pub fn count(&self) -> usize {
        self.state().previous.len()
    }

    fn act(&self, metadata: &Metadata) -> Option<Act> {
        let mut state = self.state();
        let previous = metadata.get("grpc-previous-rpc-attempts");
        state.previous.push(previous.map(str::to_owned));
        state.next.pop_front().or_else(|| state.always.clone())
    }
}

impl Act {
    async fn run(self, chunks: &mut Streaming<Chunk>) -> Status {
        for number in 0..self.read {
            match chunks.message().await {
                Ok(Some(chunk)) => assert_eq!(chunk.number(), number, "in order"),
                Ok(None) if self.read == FOREVER => std::future::pending().await,
                Ok(None) => break,
                Err(status) => return status,
            }
        }
        self.status
    }
}

impl Flow for Unsteady {
    async fn echo(&self, request: Request<Chunk>) -> Result<Response<Chunk>, Status> {
        self.service.echo(request).await
    }

    async fn produce(&self, plan: Request<Plan>, out: Sender<Chunk>) -> Result<(), Status> {
        match self.act(plan.metadata()) {
            Some(act) => Err(act.status),
            None => self.service.produce(plan, out).await,
        }
    }

    async fn collect(&self, mut chunks: Streaming<Chunk>) -> Result<Response<Sum>, Status> {
        match self.act(chunks.metadata()) {
            Some(act) => Err(act.run(&mut chunks).await),
            None => self.service.collect(chunks).await,
        }
    }

    async fn chat(
        &self,
        mut chunks: Streaming<Chunk>,
        mut out: Sender<Chunk>,
    ) -> Result<(), Status> {
        let Some(act) = self.act(chunks.metadata()) else {
            return self.service.chat(chunks, out).await;
        };
        if act.has_head {
            out.metadata_mut().append("to", "you").expect("a fine key");
            out.send_metadata();
        }
        Err(act.run(&mut chunks).await)
    }
}
