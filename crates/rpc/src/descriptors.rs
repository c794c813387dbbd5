//! Descriptors: what is known of services and their methods when they are compiled.

use petasos_message::Module;

/// What is known of a service when it is compiled.
pub struct ServiceInfo {
    /// The schema that it is part of.
    pub module: &'static Module,
    /// Its place among the schema's services.
    pub index: u32,
    /// The full name.
    pub name: &'static str,
    /// The hash of the service with its methods and their messages.
    pub hash: [u8; 16],
    /// The methods, by name in ascending order (R1).
    pub methods: &'static [MethodInfo],
}

impl core::fmt::Debug for ServiceInfo {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ServiceInfo").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What is known of a method when it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodInfo {
    /// The name, without the service's.
    pub name: &'static str,
    /// Its place among the service's methods.
    pub index: u16,
    /// Which sides are streams.
    pub kind: MethodKind,
    /// What a second execution does.
    pub idempotency: Idempotency,
}

/// Which sides of a method are streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// It is not said.
    Unknown,
    /// Nothing: the method only looks.
    NoSideEffects,
    /// Nothing more than the first.
    Idempotent,
}
