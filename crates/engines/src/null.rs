//! A policy that does nothing. It shows the cost of an engine, and keeps a place in a chain.

use petasos_engine::{
    Decompose, Direction, Engine, Policy, PolicyError, PolicyKind, State, Version, Work,
};
use serde::{Deserialize, Serialize};

use crate::config::{self, Kind};

/// The kind `null`.
#[derive(Debug)]
pub struct Null;

const VERSION: Version = Version { kind: "null", version: 1 };

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl PolicyKind for Null {
    fn version(&self) -> Version {
        VERSION
    }

    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let kind: &Kind = self;
        let nothing: Nothing = config::parse(kind, configuration)?;
        config::no_state(state, VERSION)?;
        Ok(Box::new(nothing))
    }
}

impl Policy for Nothing {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        config::no_state(state, VERSION)?;
        Ok(Box::new(*self))
    }

    fn state(&self) -> State {
        State::new(VERSION, self)
    }
}

impl Engine for Nothing {
    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                work.forward(item);
            }
        }
    }

    fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        None
    }
}
