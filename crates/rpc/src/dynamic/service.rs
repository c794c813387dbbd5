//! Services that are only known at run time.
//!
//! Typed calls use descriptors that live as long as the program, and so do these. Equal services
//! share one descriptor.

use std::collections::BTreeMap;
use std::sync::Mutex;

use petasos_call::MethodMatch;
use petasos_message::{Message, Module};
use petasos_schema::{Method, Schema};

use super::Payload;
use crate::descriptors::{Idempotency, MethodInfo, MethodKind, ServiceInfo};

/// A service and some of its methods. Its descriptor is never freed, but asking for the same
/// service again adds no new one.
#[derive(Clone, Copy, Debug)]
pub struct Service(&'static ServiceInfo);

/// Why there is no such service. The program's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// A name is not identifiers joined by dots, or has more than 255 bytes.
    #[error("`{0}` is no name of a service or method")]
    Invalid(String),
    /// A method is listed twice.
    #[error("the method `{0}` is listed twice")]
    Twice(String),
    /// The schema has no such service.
    #[error("the schema has no service `{0}`")]
    NoService(String),
    /// There are more than 65,534 methods, or more than 65,536 different services in this process.
    #[error("too many methods or services")]
    TooMany,
}

/// The most services in a process, so that names from outside cannot fill its memory.
const SERVICES_MAX: usize = 1 << 16;

/// The properties by which services differ.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: String,
    hash: [u8; 16],
    methods: Vec<(String, u8, u8)>,
}

/// All services so far.
static SERVICES: Mutex<BTreeMap<Key, &'static ServiceInfo>> = Mutex::new(BTreeMap::new());

impl Service {
    /// A service by its full name (`package.Service`), with the methods that are called, in any
    /// order.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn named(name: &str, methods: &[(&str, MethodKind)]) -> Result<Service, NameError> {
        let infos = methods.iter().map(|(name, kind)| (*name, *kind, Idempotency::Unknown));
        service(name, [0; 16], infos.collect(), || Payload::TYPE.module)
    }

    /// A service of a schema, with all its methods. A server with the same service need not send
    /// its schema at the bind, and a server with an incompatible one is not called.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn described(schema: &Schema, name: &str) -> Result<Service, NameError> {
        let found = schema.service_by_name(name);
        let (_, known) = found.ok_or_else(|| NameError::NoService(name.to_owned()))?;
        let methods = known.methods().iter();
        let methods = methods.map(|method| (method.name(), kind(method), idempotency(method)));
        service(name, known.hash().to_bytes(), methods.collect(), || {
            let schema: &'static [u8] = Vec::leak(schema.encode());
            Box::leak(Box::new(Module::new(schema)))
        })
    }

    /// The descriptor, as generated code would have it.
    pub fn info(self) -> &'static ServiceInfo {
        self.0
    }
}

fn service(
    name: &str,
    hash: [u8; 16],
    mut methods: Vec<(&str, MethodKind, Idempotency)>,
    module: impl FnOnce() -> &'static Module,
) -> Result<Service, NameError> {
    methods.sort_by_key(|(name, ..)| *name);
    let names = methods.iter().map(|(name, ..)| *name);
    let invalid = |name: &&str| !is_name(name, false);
    if let Some(name) = std::iter::once(name)
        .filter(|name| !is_name(name, true))
        .chain(names.filter(invalid))
        .next()
    {
        return Err(NameError::Invalid(name.chars().take(64).collect()));
    }
    if let Some(pair) = methods.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(NameError::Twice(pair[0].0.to_owned()));
    }
    let mut services = SERVICES.lock().expect("nothing panics under the lock");
    let parts =
        methods.iter().map(|(name, kind, level)| ((*name).to_owned(), *kind as u8, *level as u8));
    let key = Key { name: name.to_owned(), hash, methods: parts.collect() };
    if let Some(known) = services.get(&key) {
        return Ok(Service(known));
    }
    if services.len() >= SERVICES_MAX || methods.len() >= usize::from(u16::MAX) {
        return Err(NameError::TooMany);
    }
    let methods = methods.iter().enumerate().map(|(index, (name, kind, idempotency))| {
        let name: &'static str = String::leak((*name).to_owned());
        MethodInfo { name, index: index as u16, kind: *kind, idempotency: *idempotency }
    });
    let methods: &'static [MethodInfo] = Vec::leak(methods.collect());
    let name: &'static str = String::leak(name.to_owned());
    let info = ServiceInfo { module: module(), index: 0, name, hash, methods };
    let info: &'static ServiceInfo = Box::leak(Box::new(info));
    services.insert(key, info);
    Ok(Service(info))
}

/// Whether a text is an identifier, or several joined by dots.
fn is_name(name: &str, dots: bool) -> bool {
    let is_identifier = |part: &str| {
        let mut bytes = part.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    name.len() <= 255 && name.split('.').all(is_identifier) && (dots || !name.contains('.'))
}

fn kind(method: &Method) -> MethodKind {
    match (method.client_streaming(), method.server_streaming()) {
        (false, false) => MethodKind::Unary,
        (true, false) => MethodKind::ClientStreaming,
        (false, true) => MethodKind::ServerStreaming,
        (true, true) => MethodKind::Bidirectional,
    }
}

fn idempotency(method: &Method) -> Idempotency {
    match method.idempotency() {
        petasos_schema::Idempotency::Unknown => Idempotency::Unknown,
        petasos_schema::Idempotency::NoSideEffects => Idempotency::NoSideEffects,
        petasos_schema::Idempotency::Idempotent => Idempotency::Idempotent,
    }
}

/// Whether a service was made here, so that its messages have no native form. Only called at binds.
pub fn is_untyped(info: &ServiceInfo) -> bool {
    let services = SERVICES.lock().expect("nothing panics under the lock");
    services.values().any(|known| core::ptr::eq(*known, info))
}

/// Binds a service that is known only by names: finds its methods at a server (R3). `None` if there
/// is a schema to compare.
pub fn find_by_name(
    info: &ServiceInfo,
    theirs: &Schema,
) -> Option<Result<Vec<Option<MethodMatch>>, String>> {
    if !core::ptr::eq(info.module, Payload::TYPE.module) {
        return None;
    }
    let Some((_, service)) = theirs.service_by_name(info.name) else {
        return Some(Err(format!("the server's schema has no service `{}`", info.name)));
    };
    let methods = service.methods();
    let mut matched = Vec::with_capacity(info.methods.len());
    for wanted in info.methods {
        let index = methods.binary_search_by(|method| method.name().cmp(wanted.name)).ok();
        if let Some(index) = index
            && kind(&methods[index]) != wanted.kind
        {
            let (name, theirs) = (wanted.name, kind(&methods[index]));
            return Some(Err(format!("method `{name}` is {theirs:?} at the server")));
        }
        let index = index.and_then(|index| u16::try_from(index).ok());
        let place = |index| MethodMatch { index, same_request: false, same_response: false };
        matched.push(index.map(place));
    }
    Some(Ok(matched))
}
