//! Schemas that applications have submitted.
//!
//! An application submits the compact form of its schema, never code. It is checked once, however
//! many applications submit it: a schema is known by its bytes, and its plans are shared. What is
//! kept is bounded, for each application and in all; a schema is forgotten with the last binding
//! that uses it.
//!
//! Methods have numbers that are never given to others ([`MethodId`]), by the service's name, the
//! method's, and the hashes of its messages. So a policy that names a method means one thing, and a
//! method of another version is another method. A method that no binding has is forgotten in time;
//! if it comes again, it has another number.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use petasos_engine::MethodId;
use petasos_message::Types;
use petasos_schema::{Hash, Limits, MessageId, Schema, ServiceId};
use thiserror::Error;

/// How much applications may submit.
#[derive(Clone, Copy, Debug)]
pub struct SchemaLimits {
    /// Of one schema: its bytes and what they may expand to.
    pub schema: Limits,
    /// Bytes of all schemas together that are known at a time.
    pub bytes_max: usize,
    /// Bytes of the schemas that one application has bound.
    pub application_bytes_max: usize,
    /// Methods that are known at a time.
    pub methods_max: usize,
}

impl Default for SchemaLimits {
    /// 256 KiB and 16,384 elements for one schema, 1 MiB for those of an application, 64 MiB for
    /// all, and 2^20 methods.
    fn default() -> SchemaLimits {
        let elements_max = 1 << 14;
        let schema = Limits { bytes_max: 256 << 10, elements_max, ..Limits::default() };
        let (bytes_max, application_bytes_max, methods_max) = (64 << 20, 1 << 20, 1 << 20);
        SchemaLimits { schema, bytes_max, application_bytes_max, methods_max }
    }
}

/// A schema or service that was not taken. Nothing has changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The schema is malformed, or larger than one may be: the application's fault.
    #[error("the schema is refused: {0}")]
    Schema(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// All schemas together would be larger than they may be. A retry may succeed when other
    /// applications have gone.
    #[error("the service knows as many schemas as it may")]
    TooMany,
    /// The schema has no such service: the application's fault.
    #[error("the schema has no service `{0}`")]
    NoService(String),
}

/// A method of a binding.
#[derive(Clone, Debug)]
pub struct BoundMethod {
    /// Its number.
    pub id: MethodId,
    /// Service and method, as in a path of gRPC without the slash before it.
    pub name: Arc<str>,
    /// The type of requests.
    pub request: MessageId,
    /// The type of responses.
    pub response: MessageId,
    /// It has streams.
    pub is_stream: bool,
    /// It is declared to have no effect the second time.
    pub is_idempotent: bool,
    /// The number is kept for as long as somebody has this.
    _life: Arc<()>,
}

/// A service of a schema that an application calls or serves.
#[derive(Debug)]
pub struct Binding {
    /// The service's full name.
    pub service: Arc<str>,
    /// The schema.
    pub types: Arc<Types>,
    /// In the order of their names, which is that of the schema.
    pub methods: Box<[BoundMethod]>,
    entry: Arc<Entry>,
}

/// A method of one of an application's bindings, which stay as long as the application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodAt {
    /// The binding's number there.
    pub(crate) binding: u16,
    /// The method's index in it.
    pub(crate) method: u16,
}

impl MethodAt {
    /// The method, of the application's bindings.
    #[inline]
    pub(crate) fn of(self, bindings: &[Arc<Binding>]) -> &BoundMethod {
        &bindings[usize::from(self.binding)].methods[usize::from(self.method)]
    }
}

impl Binding {
    /// The types of a method's requests and responses.
    pub fn message_hashes(&self, method: &BoundMethod) -> [Hash; 2] {
        [method.request, method.response].map(|id| self.types.schema().message(id).hash())
    }

    /// The schema in its compact form, as it was submitted.
    pub fn schema(&self) -> &[u8] {
        &self.entry.bytes
    }
}

/// A schema that is known for as long as a binding has it.
#[derive(Debug)]
struct Entry {
    bytes: Box<[u8]>,
    types: Arc<Types>,
}

/// What names a method for ever.
type MethodKey = (Arc<str>, [Hash; 2]);

/// The schemas that are known.
#[derive(Debug)]
pub struct Schemas {
    limits: SchemaLimits,
    known: HashMap<Box<[u8]>, Weak<Entry>>,
    methods: HashMap<MethodKey, (MethodId, Weak<()>)>,
    next_method: u32,
}

impl Schemas {
    /// None yet.
    pub fn new(limits: SchemaLimits) -> Schemas {
        Schemas { limits, known: HashMap::new(), methods: HashMap::new(), next_method: 0 }
    }

    /// Binds a service of a schema in its compact form (`Schema::encode`).
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(&mut self, schema: &[u8], service: &str) -> Result<Binding, BindError> {
        let entry = match self.known.get(schema).and_then(Weak::upgrade) {
            Some(entry) => entry,
            None => self.learn(schema)?,
        };
        let types = entry.types.clone();
        let (id, _) = types
            .schema()
            .service_by_name(service)
            .ok_or_else(|| BindError::NoService(service.to_owned()))?;
        let methods = self.methods_of(types.schema(), id)?;
        Ok(Binding { service: service.into(), types, methods, entry })
    }

    pub(crate) fn limits(&self) -> &SchemaLimits {
        &self.limits
    }

    /// Bytes of the schemas that are known.
    pub fn bytes(&self) -> usize {
        self.known.iter().filter(|(_, entry)| entry.strong_count() > 0).map(|(k, _)| k.len()).sum()
    }

    fn learn(&mut self, bytes: &[u8]) -> Result<Arc<Entry>, BindError> {
        self.known.retain(|_, entry| entry.strong_count() > 0);
        if self.bytes() + bytes.len() > self.limits.bytes_max {
            return Err(BindError::TooMany);
        }
        let refuse = |error: Box<dyn std::error::Error + Send + Sync>| BindError::Schema(error);
        let schema = Schema::decode(bytes, &self.limits.schema).map_err(|e| refuse(e.into()))?;
        let types = Types::new(schema).map_err(|error| refuse(error.into()))?;
        let entry = Arc::new(Entry { bytes: bytes.into(), types });
        self.known.insert(entry.bytes.clone(), Arc::downgrade(&entry));
        Ok(entry)
    }

    fn methods_of(
        &mut self,
        schema: &Schema,
        service: ServiceId,
    ) -> Result<Box<[BoundMethod]>, BindError> {
        let service = schema.service(service);
        let methods = service.methods().iter().map(|method| {
            let name: Arc<str> = format!("{}/{}", service.full_name(), method.name()).into();
            let hash = |id| schema.message(id).hash();
            let key = (name.clone(), [hash(method.input()), hash(method.output())]);
            let (id, life) = self.number_of(key)?;
            Ok(BoundMethod {
                id,
                name,
                request: method.input(),
                response: method.output(),
                is_stream: method.client_streaming() || method.server_streaming(),
                is_idempotent: method.idempotency() != petasos_schema::Idempotency::Unknown,
                _life: life,
            })
        });
        methods.collect()
    }

    fn number_of(&mut self, key: MethodKey) -> Result<(MethodId, Arc<()>), BindError> {
        let known = self.methods.get(&key);
        if let Some((id, life)) = known.and_then(|(id, life)| Some((*id, life.upgrade()?))) {
            return Ok((id, life));
        }
        if self.methods.len() >= self.limits.methods_max {
            self.methods.retain(|_, (_, life)| life.strong_count() > 0);
        }
        let is_full = self.methods.len() >= self.limits.methods_max;
        let next = self.next_method.checked_add(1).filter(|_| !is_full);
        let (id, life) = (MethodId(self.next_method), Arc::new(()));
        self.next_method = next.ok_or(BindError::TooMany)?;
        self.methods.insert(key, (id, Arc::downgrade(&life)));
        Ok((id, life))
    }
}
