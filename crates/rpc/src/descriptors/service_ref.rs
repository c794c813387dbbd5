//! References to descriptors.

use core::fmt;
use std::sync::Arc;

use petasos_message::ModuleRef;

use super::owned::{Described, Full, Owned};
use super::{MethodInfo, ServiceInfo};

/// A service's descriptor, as somebody keeps it: that of generated code, or one that became known
/// at run time ([`Service`](crate::dynamic::Service)) and is freed with its last reference.
///
/// A clone of the latter counts a reference, so calls borrow what the channel or the server has.
#[derive(Clone)]
pub struct ServiceRef(Kind);

#[derive(Clone)]
enum Kind {
    Static(&'static ServiceInfo),
    Owned(Arc<Owned>),
}

impl ServiceRef {
    /// A service of generated code.
    pub const fn of(info: &'static ServiceInfo) -> ServiceRef {
        ServiceRef(Kind::Static(info))
    }

    /// A service that became known at run time, with the schema that `module` makes. Equal ones
    /// share a descriptor.
    ///
    /// # Errors
    /// There are too many services, or bytes of them.
    pub(crate) fn described(
        described: Described,
        module: impl FnOnce() -> ModuleRef,
    ) -> Result<ServiceRef, Full> {
        described.shared(module).map(|service| ServiceRef(Kind::Owned(service)))
    }

    /// The full name.
    #[inline]
    pub fn name(&self) -> &str {
        match &self.0 {
            Kind::Static(info) => info.name,
            Kind::Owned(service) => &service.described.name,
        }
    }

    /// The hash of the service, including its methods and their messages. Zero of a service that is
    /// known by names only.
    pub fn hash(&self) -> [u8; 16] {
        match &self.0 {
            Kind::Static(info) => info.hash,
            Kind::Owned(service) => service.described.hash,
        }
    }

    /// The schema that defines it.
    pub fn module(&self) -> ModuleRef {
        match &self.0 {
            Kind::Static(info) => info.module.into(),
            Kind::Owned(service) => service.module.clone(),
        }
    }

    /// How many methods it has.
    fn count(&self) -> usize {
        match &self.0 {
            Kind::Static(info) => info.methods.len(),
            Kind::Owned(service) => service.described.methods.len(),
        }
    }

    /// The methods, by name in ascending order (R1).
    pub fn methods(&self) -> impl ExactSizeIterator<Item = MethodInfo<'_>> {
        // At most 65,534 (R1): others do not compile, and are not made at run time.
        (0..self.count() as u16).map(|index| self.method(index))
    }

    /// The method with an index.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn method(&self, index: u16) -> MethodInfo<'_> {
        match &self.0 {
            Kind::Static(info) => info.methods[usize::from(index)],
            Kind::Owned(service) => {
                let method = &service.described.methods[usize::from(index)];
                let (kind, idempotency) = (method.kind, method.idempotency);
                MethodInfo { name: &method.name, index, kind, idempotency }
            }
        }
    }

    /// The method with a name.
    pub fn method_by_name(&self, name: &str) -> Option<MethodInfo<'_>> {
        let found = match &self.0 {
            Kind::Static(info) => info.methods.binary_search_by(|method| method.name.cmp(name)),
            Kind::Owned(service) => {
                service.described.methods.binary_search_by(|method| (*method.name).cmp(name))
            }
        };
        found.ok().map(|at| self.method(at as u16))
    }

    /// Whether two references are of one descriptor.
    #[inline]
    pub fn is_same(&self, other: &ServiceRef) -> bool {
        match (&self.0, &other.0) {
            (Kind::Static(one), Kind::Static(other)) => core::ptr::eq(*one, *other),
            (Kind::Owned(one), Kind::Owned(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Of a service that became known at run time: whether messages of unary methods may be images.
    pub(crate) fn has_images(&self) -> Option<bool> {
        match &self.0 {
            Kind::Static(_) => None,
            Kind::Owned(service) => Some(service.described.has_images),
        }
    }
}

impl From<&'static ServiceInfo> for ServiceRef {
    fn from(info: &'static ServiceInfo) -> ServiceRef {
        ServiceRef::of(info)
    }
}

impl From<&ServiceRef> for ServiceRef {
    fn from(service: &ServiceRef) -> ServiceRef {
        service.clone()
    }
}

impl fmt::Debug for ServiceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceRef").field("name", &self.name()).finish_non_exhaustive()
    }
}
