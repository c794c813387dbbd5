//! Services that applications serve, or have served, by their names.
//!
//! Other hosts know such a service as long as the transport lives: numbers of its methods are not
//! given again (R1), and it may come back. So what is kept of it is small: no schema.

use std::sync::Arc;

use petasos::rt::{MethodKind, ServiceRef};

/// A service, without its schema.
#[derive(Debug, PartialEq, Eq)]
pub struct Known {
    /// The full name.
    pub name: Arc<str>,
    hash: [u8; 16],
    /// By name in ascending order, and which sides are streams.
    methods: Box<[(Arc<str>, MethodKind)]>,
}

impl Known {
    pub fn of(service: &ServiceRef) -> Known {
        let methods = service.methods().map(|method| (method.name.into(), method.kind));
        let (name, hash) = (service.name().into(), service.hash());
        Known { name, hash, methods: methods.collect() }
    }

    /// The names of the service and of a method, by its index.
    pub fn names(&self, method: u16) -> (Arc<str>, Arc<str>) {
        (self.name.clone(), self.methods[usize::from(method)].0.clone())
    }

    /// The name of a method and its kind, by its name.
    pub fn method(&self, name: &str) -> Option<(Arc<str>, MethodKind)> {
        let at = self.methods.binary_search_by(|(known, _)| (**known).cmp(name)).ok()?;
        Some(self.methods[at].clone())
    }

    /// The names of its methods, by their indexes.
    pub fn methods(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.methods.iter().map(|(name, _)| name)
    }
}
