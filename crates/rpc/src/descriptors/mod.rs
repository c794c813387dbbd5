//! Descriptors: what generated code knows about services and their methods, and what became known
//! at run time (`owned`).

mod owned;
mod service_ref;

use petasos_message::Module;

pub use owned::{Alive, alive};
pub(crate) use owned::{Described, DescribedMethod};
pub use service_ref::ServiceRef;

/// A service's descriptor in generated code. Others use it as a [`ServiceRef`].
pub struct ServiceInfo {
    /// The schema that defines it.
    pub module: &'static Module,
    /// Its index among the schema's services.
    pub index: u32,
    /// The full name.
    pub name: &'static str,
    /// The hash of the service, including its methods and their messages.
    pub hash: [u8; 16],
    /// The methods, by name in ascending order (R1).
    pub methods: &'static [MethodInfo<'static>],
}

impl core::fmt::Debug for ServiceInfo {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ServiceInfo").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A method's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodInfo<'a> {
    /// The name, without the service's.
    pub name: &'a str,
    /// Its index among the service's methods.
    pub index: u16,
    /// Which sides are streams.
    pub kind: MethodKind,
    /// What a second execution does.
    pub idempotency: Idempotency,
}

/// Which sides of a method are streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MethodKind {
    /// Neither.
    Unary,
    /// The requests.
    ClientStreaming,
    /// The responses.
    ServerStreaming,
    /// Both.
    Bidirectional,
}

/// What a second execution of a method does, as its schema says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Idempotency {
    /// Not specified.
    Unknown,
    /// Nothing: the method only reads.
    NoSideEffects,
    /// Nothing that the first has not done already.
    Idempotent,
}
