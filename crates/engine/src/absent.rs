//! What stands in a place whose engine was taken out (E9).

use std::sync::Arc;

use petasos_call::Status;

use crate::{Decompose, Direction, Engine, ItemKind, Policy, PolicyError, State, Work};

/// What a place does without its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Items pass.
    Open,
    /// Calls that begin end with `UNAVAILABLE`, and have not run. Others go on.
    Closed,
}

/// A policy whose engines were taken out. It keeps the states that they had, so that the policy, or
/// another of its kind, goes on from them when it takes the place again. Calls that have ended
/// meanwhile are no longer in them.
pub struct Absent {
    policy: Arc<dyn Policy>,
    without: Without,
}

impl Absent {
    /// In place of this policy.
    pub fn new(policy: Arc<dyn Policy>, without: Without) -> Absent {
        Absent { policy, without }
    }
}

impl Policy for Absent {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let (policy, state) = (Some(self.policy.clone()), state.cloned());
        Ok(Box::new(StandIn { policy, without: self.without, state }))
    }

    fn state(&self) -> State {
        self.policy.state()
    }

    fn report(&self) -> serde_json::Value {
        self.policy.report()
    }
}

/// An engine without a policy.
pub(crate) struct StandIn {
    /// Which knows what is in the state.
    policy: Option<Arc<dyn Policy>>,
    without: Without,
    /// Of the engine that was there.
    state: Option<State>,
}

impl StandIn {
    /// Where calls must not pass without the engine that is gone, whose state nobody takes.
    pub(crate) const CLOSED: StandIn =
        StandIn { policy: None, without: Without::Closed, state: None };
}

impl Engine for StandIn {
    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                match (self.without, work.kind(&item)) {
                    (Without::Closed, ItemKind::Request) => {
                        work.end(item, Status::unavailable("a policy is missing"));
                    }
                    _ => work.forward(item),
                }
            }
        }
    }

    /// An engine that is made and ended again leaves out of its state what is over by now.
    fn decompose(self: Box<Self>, decompose: &mut Decompose<'_>) -> Option<State> {
        match self.policy?.engine(self.state.as_ref()) {
            Ok(engine) => engine.decompose(decompose),
            Err(_) => self.state,
        }
    }
}
