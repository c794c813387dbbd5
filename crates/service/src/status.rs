//! What operators see of applications.

use std::sync::Arc;

use petasos_engine::Application as Number;

use crate::application::{Application, Memory};
use crate::{ApplicationLimits, Binding, Gone, Hub};

/// What is under way in an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Calls, in both directions.
    pub calls: usize,
    /// Bytes of messages that are held for it.
    pub held_bytes: usize,
    /// Descriptors that wait for room in its ring.
    pub descriptors: usize,
}

impl<M: Memory> Application<M> {
    /// For how long the service has worked for it, in turns that were metered
    /// ([`Hub::turn_metered`](crate::Hub::turn_metered)).
    pub fn processor_ns(&self) -> u64 {
        self.processor_ns
    }

    /// The service has worked for it for so long, in a turn or besides.
    pub fn charge_processor(&mut self, ns: u64) {
        self.processor_ns = self.processor_ns.saturating_add(ns);
    }

    /// What is under way.
    pub fn load(&self) -> Load {
        Load {
            calls: self.by_number.len(),
            held_bytes: self.held.iter().map(|held| held.bytes).sum(),
            descriptors: self.descriptors.len(),
        }
    }

    /// What it may have at a time.
    pub fn limits(&self) -> &ApplicationLimits {
        &self.limits
    }

    /// The services that it has bound.
    pub fn bindings(&self) -> &[Arc<Binding>] {
        &self.bindings
    }
}

impl<M: Memory> Hub<M> {
    /// The applications, by number.
    pub fn applications(&self) -> impl Iterator<Item = &Application<M>> {
        self.applications.values()
    }

    /// The names under which an application serves, in order.
    pub fn served_by(&self, number: Number) -> Vec<Arc<str>> {
        self.host.served_by(number)
    }

    /// What applications had counted that have gone.
    pub fn gone(&self) -> &Gone {
        &self.gone
    }

    /// Bytes of the schemas that are known, and the most that may be.
    pub fn schema_bytes(&self) -> (usize, usize) {
        let schemas = self.host.schemas();
        (schemas.bytes(), schemas.limits().bytes_max)
    }
}
