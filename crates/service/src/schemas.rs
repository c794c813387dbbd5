//! Schemas that applications have submitted, or that an operator has loaded.
//!
//! An application submits the compact form of its schema, never code. The service checks a schema
//! once, however many applications submit it, and they share its plans. This module computes the
//! digest of a schema's bytes. An application can name a schema by the digest instead of submitting
//! it. It then gets the schema with exactly these bytes, or none ([`Schemas::recall`]).
//!
//! The kept schemas are bounded, for each application and in total. A schema is *bound* while a
//! binding has it, and *loaded* if an operator has asked for it. All other schemas are *spare*: the
//! service keeps the most recently used ones, in case an application binds them again.
//!
//! A method has a number ([`MethodId`]) for its service's name, its own name, the hashes of its
//! messages, and whether it has streams. No other method ever gets this number. So a policy that
//! names a method always means the same one, and another version of the method is another method.
//! The service forgets a method that no binding has, after some time. If the method comes back, it
//! gets another number.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use petasos_engine::MethodId;
use petasos_message::Types;
use petasos_schema::{Digest, Hash, Limits, MessageId, Schema, ServiceId};
use thiserror::Error;

use crate::numbered::Numbered;

/// How much applications may submit.
#[derive(Clone, Copy, Debug)]
pub struct SchemaLimits {
    /// Of one schema: its bytes and what they may expand to.
    pub schema: Limits,
    /// Bytes of all schemas together that are known at a time.
    pub bytes_max: usize,
    /// Bytes of the schemas that one application has bound.
    pub application_bytes_max: usize,
    /// Bytes of the spare ones.
    pub spare_bytes_max: usize,
    /// How many of them there are.
    pub spare_max: usize,
    /// Methods that are known at a time.
    pub methods_max: usize,
}

impl Default for SchemaLimits {
    /// 256 KiB and 16,384 elements for one schema, 1 MiB for those of an application, 64 MiB for
    /// all, 256 spare ones of 8 MiB together, and 2^20 methods.
    fn default() -> SchemaLimits {
        let elements_max = 1 << 14;
        let schema = Limits { bytes_max: 256 << 10, elements_max, ..Limits::default() };
        SchemaLimits {
            schema,
            bytes_max: 64 << 20,
            application_bytes_max: 1 << 20,
            spare_bytes_max: 8 << 20,
            spare_max: 256,
            methods_max: 1 << 20,
        }
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
    /// No schema with this digest is known. Submit its bytes.
    #[error("the service does not know the schema")]
    Unknown,
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
    known: Arc<KnownSchema>,
    _life: Arc<()>,
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

    /// The schema, as it is known.
    pub fn known(&self) -> &Arc<KnownSchema> {
        &self.known
    }
}

/// A schema that was checked.
#[derive(Debug)]
pub struct KnownSchema {
    digest: Digest,
    bytes: Box<[u8]>,
    types: Arc<Types>,
}

impl KnownSchema {
    /// What names it.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Its compact form, as it was submitted.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its messages.
    pub fn types(&self) -> &Arc<Types> {
        &self.types
    }
}

/// How a schema is kept.
#[derive(Debug)]
struct Kept {
    schema: Arc<KnownSchema>,
    /// Each binding has it, too.
    life: Arc<()>,
    /// An operator has asked for it.
    is_loaded: bool,
    /// Counts uses of all: the least is that of the schema that was not used for longest.
    used: u64,
}

impl Kept {
    fn bindings(&self) -> usize {
        Arc::strong_count(&self.life) - 1
    }

    fn is_spare(&self) -> bool {
        !self.is_loaded && self.bindings() == 0
    }
}

/// A schema, as operators see it.
#[derive(Clone, Copy, Debug)]
pub struct KeptSchema<'a> {
    /// The schema.
    pub schema: &'a Arc<KnownSchema>,
    /// An operator has asked for it.
    pub is_loaded: bool,
    /// Bindings that have it.
    pub bindings: usize,
}

/// What names a method for ever: its name, its messages, and whether it has streams.
pub type MethodKey = (Arc<str>, [Hash; 2], bool);

/// The schemas that are known.
#[derive(Debug)]
pub struct Schemas {
    limits: SchemaLimits,
    kept: HashMap<Digest, Kept>,
    /// Of all of them.
    bytes: usize,
    /// With so many of them, spare ones are looked for: not with each one that is learned.
    trim_at: usize,
    uses: u64,
    /// Those that were bound lately, if somebody wants to know.
    bound: Option<VecDeque<Arc<KnownSchema>>>,
    methods: HashMap<MethodKey, (MethodId, Weak<()>)>,
    next_method: u32,
    /// Keeps the numbers that another process has given, until its applications are here.
    inherited: Vec<Arc<()>>,
}

/// So many schemas that were bound wait for whoever wants to know; later ones are not told.
const BOUND_MAX: usize = 64;

impl Schemas {
    /// None yet.
    pub fn new(limits: SchemaLimits) -> Schemas {
        let (kept, methods) = (HashMap::new(), HashMap::new());
        let (bytes, trim_at, uses, bound, next_method) = (0, 0, 0, None, 0);
        let inherited = Vec::new();
        Schemas { limits, kept, bytes, trim_at, uses, bound, methods, next_method, inherited }
    }

    /// Binds a service of a schema in its compact form (`Schema::encode`).
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(&mut self, schema: &[u8], service: &str) -> Result<Binding, BindError> {
        let digest = Digest::of(schema);
        self.learn(digest, schema)?;
        self.recall(digest, service)
    }

    /// The same, of a schema with this digest, if one is known.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn recall(&mut self, digest: Digest, service: &str) -> Result<Binding, BindError> {
        let kept = self.kept.get_mut(&digest).ok_or(BindError::Unknown)?;
        self.uses += 1;
        kept.used = self.uses;
        let (known, life) = (kept.schema.clone(), kept.life.clone());
        let types = known.types.clone();
        let (id, _) = types
            .schema()
            .service_by_name(service)
            .ok_or_else(|| BindError::NoService(service.to_owned()))?;
        let methods = self.methods_of(types.schema(), id)?;
        self.tell(&known);
        Ok(Binding { service: service.into(), types, methods, known, _life: life })
    }

    /// Keeps a schema that nobody has bound: until it is [evicted](Schemas::evict) if `is_loaded`,
    /// otherwise as one that was bound before. Gives its digest, and whether that is new.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn load(&mut self, schema: &[u8], is_loaded: bool) -> Result<(Digest, bool), BindError> {
        let digest = Digest::of(schema);
        self.learn(digest, schema)?;
        let kept = self.kept.get_mut(&digest).expect("it was just learned");
        let is_new = is_loaded && !kept.is_loaded;
        kept.is_loaded |= is_loaded;
        let known = kept.schema.clone();
        if is_loaded {
            self.tell(&known);
        }
        Ok((digest, is_new))
    }

    /// Undoes that a schema was loaded: it stays as one that was bound before.
    pub fn unload(&mut self, digest: Digest) {
        if let Some(kept) = self.kept.get_mut(&digest) {
            kept.is_loaded = false;
        }
        self.trim(0);
    }

    /// Forgets a schema, unless bindings have it. Gives what it was and whether it was loaded.
    ///
    /// # Errors
    /// How many bindings have it; 0 if it is not known.
    pub fn evict(&mut self, digest: Digest) -> Result<(Arc<KnownSchema>, bool), usize> {
        let bindings = self.kept.get(&digest).map(Kept::bindings);
        match bindings {
            None => Err(0),
            Some(0) => {
                let kept = self.kept.remove(&digest).expect("it was just found");
                self.bytes -= kept.schema.bytes.len();
                if let Some(bound) = &mut self.bound {
                    bound.retain(|told| told.digest != digest);
                }
                Ok((kept.schema, kept.is_loaded))
            }
            Some(bindings) => Err(bindings),
        }
    }

    /// A schema that is known.
    pub fn get(&self, digest: Digest) -> Option<&Arc<KnownSchema>> {
        self.kept.get(&digest).map(|kept| &kept.schema)
    }

    /// All that are known, by digest.
    pub fn all(&self) -> Vec<KeptSchema<'_>> {
        let all = self.kept.values();
        let mut all: Vec<_> = all
            .map(|kept| {
                let (schema, is_loaded) = (&kept.schema, kept.is_loaded);
                KeptSchema { schema, is_loaded, bindings: kept.bindings() }
            })
            .collect();
        all.sort_unstable_by_key(|kept| kept.schema.digest);
        all
    }

    /// From now on, [`Schemas::poll_bound`] tells which schemas are bound.
    pub fn tell_bound(&mut self) {
        self.bound.get_or_insert_default();
    }

    /// A schema that was bound or loaded. Not each time is told if that is often.
    pub fn poll_bound(&mut self) -> Option<Arc<KnownSchema>> {
        self.bound.as_mut()?.pop_front()
    }

    /// The numbers of the methods that are bound, and the next one.
    pub(crate) fn method_numbers(&self) -> Numbered<MethodKey> {
        let bound = self.methods.iter().filter(|(_, (_, life))| life.strong_count() > 0);
        let known = bound.map(|(key, (id, _))| (key.clone(), id.0)).collect();
        Numbered { known, next: self.next_method }
    }

    /// Goes on with the numbers of another process: nothing is bound yet.
    pub(crate) fn inherit(&mut self, methods: Numbered<MethodKey>) {
        self.next_method = methods.next;
        for (key, number) in methods.known {
            let life = Arc::new(());
            self.methods.insert(key, (MethodId(number), Arc::downgrade(&life)));
            self.inherited.push(life);
        }
    }

    /// The applications of that process are here, as far as they come: methods that none of them
    /// has bound are forgotten as others are.
    pub fn forget_inherited(&mut self) {
        self.inherited = Vec::new();
    }

    /// What they may take.
    pub fn limits(&self) -> &SchemaLimits {
        &self.limits
    }

    /// Bytes of the schemas that are known.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets spare schemas until they are few enough, and so many bytes more have room. Those go
    /// first that were not used for longest.
    pub(crate) fn trim(&mut self, wanted: usize) {
        let SchemaLimits { spare_max, spare_bytes_max, bytes_max, .. } = self.limits;
        let spare = self.kept.values().filter(|kept| kept.is_spare());
        let mut oldest: Vec<_> =
            spare.map(|kept| (kept.used, kept.schema.bytes.len(), kept.schema.digest)).collect();
        oldest.sort_unstable();
        let (mut count, mut bytes) =
            (oldest.len(), oldest.iter().map(|(_, bytes, _)| bytes).sum::<usize>());
        for (_, gone, digest) in oldest {
            let is_over = count > spare_max
                || bytes > spare_bytes_max
                || self.bytes.saturating_add(wanted) > bytes_max;
            if !is_over {
                break;
            }
            self.kept.remove(&digest);
            (self.bytes, count, bytes) = (self.bytes - gone, count - 1, bytes - gone);
        }
        self.trim_at = self.kept.len() + self.kept.len() / 8;
    }

    /// Checks a schema, unless it is known already.
    fn learn(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), BindError> {
        if self.kept.contains_key(&digest) {
            return Ok(());
        }
        let refuse = |error: Box<dyn std::error::Error + Send + Sync>| BindError::Schema(error);
        let schema = Schema::decode(bytes, &self.limits.schema).map_err(|e| refuse(e.into()))?;
        let types = Types::new(schema).map_err(|error| refuse(error.into()))?;
        let is_over = |this: &Schemas| this.bytes + bytes.len() > this.limits.bytes_max;
        if is_over(self) || self.kept.len() >= self.trim_at {
            self.trim(bytes.len());
        }
        if is_over(self) {
            return Err(BindError::TooMany);
        }
        let schema = Arc::new(KnownSchema { digest, bytes: bytes.into(), types });
        self.uses += 1;
        let kept = Kept { schema, life: Arc::new(()), is_loaded: false, used: self.uses };
        self.kept.insert(digest, kept);
        self.bytes += bytes.len();
        Ok(())
    }

    fn tell(&mut self, known: &Arc<KnownSchema>) {
        let Some(bound) = &mut self.bound else { return };
        let is_told = bound.iter().any(|told| told.digest == known.digest);
        if bound.len() < BOUND_MAX && !is_told {
            bound.push_back(known.clone());
        }
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
            let is_stream = method.client_streaming() || method.server_streaming();
            let key = (name.clone(), [hash(method.input()), hash(method.output())], is_stream);
            let (id, life) = self.number_of(key)?;
            Ok(BoundMethod {
                id,
                name,
                request: method.input(),
                response: method.output(),
                is_stream,
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
