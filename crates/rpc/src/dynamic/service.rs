//! Services that are only known at run time.
//!
//! Their descriptors are shared by equal services and freed with the last of these
//! (`descriptors::owned`).

use petasos_call::{MethodMatch, UNARY_ONLY};
use petasos_message::{Message, Module, ModuleRef};
use petasos_schema::{LAYOUT_VERSION, Method, Schema};

use super::Payload;
use crate::descriptors::{
    Alive, Described, DescribedMethod, Idempotency, MethodKind, ServiceRef, alive,
};

/// A service and some of its methods. Equal ones share a descriptor, which is freed when nothing
/// uses it any more. Besides these values and clients, that are: channels to which it was bound,
/// until they [let go](crate::settings::ChannelInfo::let_go) of it; servers; interceptors that
/// count calls; and, for its schema, loops whose calls go through the managed service of the host.
#[derive(Clone, Debug)]
pub struct Service(ServiceRef);

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
    /// There are more than 65,534 methods; or, with this one, more than 65,536 different services
    /// would be in use in this process, or 64 MiB of their schemas and names. There is room again
    /// when others are dropped.
    #[error("too many methods or services")]
    TooMany,
}

impl Service {
    /// A service by its full name (`package.Service`), with the methods that are called, in any
    /// order.
    ///
    /// # Errors
    /// See [`NameError`].
    pub fn named(name: &str, methods: &[(&str, MethodKind)]) -> Result<Service, NameError> {
        let infos = methods.iter().map(|(name, kind)| (*name, *kind, Idempotency::Unknown));
        service(name, [0; 16], infos.collect(), false, || Payload::TYPE.module.into())
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
        let module = || Module::owned(schema.encode()).into();
        service(name, known.hash().to_bytes(), methods.collect(), images, module)
    }

    /// The descriptor.
    pub fn info(&self) -> &ServiceRef {
        &self.0
    }

    /// What there is in this process of services like these, and is in use.
    pub fn alive() -> Alive {
        alive()
    }
}

fn service(
    name: &str,
    hash: [u8; 16],
    mut methods: Vec<(&str, MethodKind, Idempotency)>,
    has_images: bool,
    module: impl FnOnce() -> ModuleRef,
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
    if methods.len() >= usize::from(u16::MAX) {
        return Err(NameError::TooMany);
    }
    let methods = methods.into_iter().map(|(name, kind, idempotency)| {
        let name = name.into();
        DescribedMethod { name, kind, idempotency }
    });
    let described = Described { name: name.into(), hash, methods: methods.collect(), has_images };
    let service = ServiceRef::described(described, module);
    service.map(Service).map_err(|_| NameError::TooMany)
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

/// Whether a service was made here, so that its messages are not of types of this process.
pub fn is_untyped(service: &ServiceRef) -> bool {
    service.has_images().is_some()
}

/// The native layout in which messages of a service may travel (R2).
pub fn layout_of(service: &ServiceRef) -> u16 {
    let version = LAYOUT_VERSION as u16;
    match service.has_images() {
        None => version,
        Some(true) => version | UNARY_ONLY,
        Some(false) => 0,
    }
}

/// Binds a service that is known only by names: finds its methods at a server (R3). `None` if there
/// is a schema to compare.
pub fn find_by_name(
    ours: &ServiceRef,
    theirs: &Schema,
) -> Option<Result<Vec<Option<MethodMatch>>, String>> {
    let ModuleRef::Static(module) = ours.module() else { return None };
    if !core::ptr::eq(module, Payload::TYPE.module) {
        return None;
    }
    let name = ours.name();
    let Some((_, service)) = theirs.service_by_name(name) else {
        return Some(Err(format!("the server's schema has no service `{name}`")));
    };
    let methods = service.methods();
    let mut matched = Vec::with_capacity(ours.methods().len());
    for wanted in ours.methods() {
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
