//! Services that are only known at run time.
//!
//! Typed calls use descriptors that live as long as the program, and so do these. Equal services
//! share one descriptor.

use std::collections::BTreeMap;
use std::sync::Mutex;

use petasos_call::{MethodMatch, UNARY_ONLY};
use petasos_message::{Message, Module};
use petasos_schema::{LAYOUT_VERSION, Method, Schema};

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
    /// There are more than 65,534 methods, more than 65,536 different services in this process, or
    /// more than 64 MiB of their schemas and names.
    #[error("too many methods or services")]
    TooMany,
}

/// The most services in a process, so that names from outside cannot fill its memory.
const SERVICES_MAX: usize = 1 << 16;
/// The most bytes of their schemas and names.
const BYTES_MAX: usize = 64 << 20;

/// The properties by which services differ.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: String,
    hash: [u8; 16],
    methods: Vec<(String, u8, u8)>,
    has_images: bool,
}

/// All services so far.
static SERVICES: Mutex<Table> = Mutex::new(Table::new(BYTES_MAX));

/// Services that are known. Their descriptors live as long as the program.
struct Table {
    services: BTreeMap<Key, &'static ServiceInfo>,
    /// Bytes of schemas and names.
    bytes: usize,
    bytes_max: usize,
}

impl Table {
    const fn new(bytes_max: usize) -> Table {
        Table { services: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// The service of a key. Its methods are in the order of their names.
    fn get(
        &mut self,
        key: Key,
        methods: &[(&str, MethodKind, Idempotency)],
        schema: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Result<Service, NameError> {
        if let Some(known) = self.services.get(&key) {
            return Ok(Service(known));
        }
        let is_full = self.services.len() >= SERVICES_MAX;
        if is_full || methods.len() >= usize::from(u16::MAX) {
            return Err(NameError::TooMany);
        }
        let schema = schema();
        let names: usize = methods.iter().map(|(name, ..)| name.len()).sum();
        // Names are there twice: in the key, and in the descriptor.
        let bytes = schema.as_ref().map_or(0, Vec::len) + 2 * (key.name.len() + names);
        if self.bytes + bytes > self.bytes_max {
            return Err(NameError::TooMany);
        }
        self.bytes += bytes;
        let module: &'static Module = match schema {
            Some(schema) => Box::leak(Box::new(Module::new(Vec::leak(schema)))),
            None => Payload::TYPE.module,
        };
        let methods = methods.iter().enumerate().map(|(index, (name, kind, idempotency))| {
            let name: &'static str = String::leak((*name).to_owned());
            MethodInfo { name, index: index as u16, kind: *kind, idempotency: *idempotency }
        });
        let methods: &'static [MethodInfo] = Vec::leak(methods.collect());
        let (name, hash) = (String::leak(key.name.clone()), key.hash);
        let info: &'static ServiceInfo =
            Box::leak(Box::new(ServiceInfo { module, index: 0, name, hash, methods }));
        self.services.insert(key, info);
        Ok(Service(info))
    }
}

impl Service {
    /// A service by its full name (`package.Service`), with the methods that are called, in any
    /// order.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn named(name: &str, methods: &[(&str, MethodKind)]) -> Result<Service, NameError> {
        let infos = methods.iter().map(|(name, kind)| (*name, *kind, Idempotency::Unknown));
        service(name, [0; 16], infos.collect(), false, || None)
    }

    /// A service of a schema, with all its methods. A server with the same service need not send
    /// its schema at the bind, and a server with an incompatible one is not called.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn described(schema: &Schema, name: &str) -> Result<Service, NameError> {
        Service::of_schema(schema, name, false)
    }

    /// The same service, but messages of its unary methods may be images of the schema's types, too
    /// (M20): for calls that are relayed, since a [`Payload`] cannot hold one.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn with_images(schema: &Schema, name: &str) -> Result<Service, NameError> {
        Service::of_schema(schema, name, true)
    }

    fn of_schema(schema: &Schema, name: &str, images: bool) -> Result<Service, NameError> {
        let found = schema.service_by_name(name);
        let (_, known) = found.ok_or_else(|| NameError::NoService(name.to_owned()))?;
        let methods = known.methods().iter();
        let methods = methods.map(|method| (method.name(), kind(method), idempotency(method)));
        service(name, known.hash().to_bytes(), methods.collect(), images, || Some(schema.encode()))
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
    has_images: bool,
    schema: impl FnOnce() -> Option<Vec<u8>>,
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
    let parts =
        methods.iter().map(|(name, kind, level)| ((*name).to_owned(), *kind as u8, *level as u8));
    let key = Key { name: name.to_owned(), hash, methods: parts.collect(), has_images };
    SERVICES.lock().expect("nothing panics under the lock").get(key, &methods, schema)
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

/// Whether a service was made here, so that its messages are not of types of this process. Only
/// called at binds.
pub fn is_untyped(info: &ServiceInfo) -> bool {
    has_images(info).is_some()
}

/// Of a service that was made here: whether messages of unary methods may be images.
fn has_images(info: &ServiceInfo) -> Option<bool> {
    let services = SERVICES.lock().expect("nothing panics under the lock");
    let mut services = services.services.iter();
    services.find(|(_, known)| core::ptr::eq(**known, info)).map(|(key, _)| key.has_images)
}

/// The native layout in which messages of a service may travel (R2). Only called at binds.
pub fn layout_of(info: &ServiceInfo) -> u16 {
    let version = LAYOUT_VERSION as u16;
    match has_images(info) {
        None => version,
        Some(true) => version | UNARY_ONLY,
        Some(false) => 0,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_services_is_bounded_and_equal_ones_are_kept_once() {
        let mut table = Table::new(1000);
        let mut get = |name: &str, bytes: usize| {
            let (name, hash, methods) = (name.to_owned(), [1; 16], vec![]);
            let key = Key { name, hash, methods, has_images: false };
            table.get(key, &[], || Some(vec![0; bytes])).map(Service::info)
        };
        let first = get("a", 900).expect("there is room");
        assert!(core::ptr::eq(first, get("a", 900).expect("it is there")));
        assert_eq!(get("b", 200).err(), Some(NameError::TooMany));
        assert!(get("c", 90).is_ok(), "nothing was counted of what was refused");
    }
}
