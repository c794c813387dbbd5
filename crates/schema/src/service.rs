//! Services and their methods.

use crate::hash::Hash;
use crate::ids::MessageId;
use crate::model::{Docs, Name, named};

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub(crate) name: Name,
    pub(crate) docs: Docs,
    pub(crate) methods: Vec<Method>,
    pub(crate) hash: Hash,
}

named!(Service);

impl Service {
    /// The methods, sorted by name.
    pub fn methods(&self) -> &[Method] {
        &self.methods
    }

    /// The method with a name.
    pub fn method_by_name(&self, name: &str) -> Option<&Method> {
        let at = self.methods.binary_search_by(|method| method.name().cmp(name)).ok()?;
        Some(&self.methods[at])
    }

    /// The hash of the service, including all its methods and their messages.
    pub fn hash(&self) -> Hash {
        self.hash
    }
}

/// A method of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    pub(crate) name: Box<str>,
    pub(crate) comment: Box<str>,
    pub(crate) input: MessageId,
    pub(crate) output: MessageId,
    pub(crate) client_streaming: bool,
    pub(crate) server_streaming: bool,
    pub(crate) idempotency: Idempotency,
}

impl Method {
    /// The name within the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The comment before the method, empty if there is none.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// The type of requests.
    pub fn input(&self) -> MessageId {
        self.input
    }

    /// The type of responses.
    pub fn output(&self) -> MessageId {
        self.output
    }

    /// Whether a call can have any number of requests, rather than one.
    pub fn client_streaming(&self) -> bool {
        self.client_streaming
    }

    /// Whether a call can have any number of responses, rather than one.
    pub fn server_streaming(&self) -> bool {
        self.server_streaming
    }

    /// The option `idempotency_level`.
    pub fn idempotency(&self) -> Idempotency {
        self.idempotency
    }
}

/// What a second execution of a call does: `google.protobuf.MethodOptions.IdempotencyLevel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Idempotency {
    /// Not stated: a call that may have run must not be sent again.
    #[default]
    Unknown,
    /// A call has no side effects.
    NoSideEffects,
    /// A call that runs twice has the effects of one.
    Idempotent,
}
