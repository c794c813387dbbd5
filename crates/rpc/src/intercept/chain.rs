//! Lists of interceptors, and interceptors around a service's methods.

use core::fmt;
use std::sync::Arc;

use super::Interceptor;
use crate::descriptors::ServiceRef;

/// Interceptors, the outermost first. Nothing is allocated if there are none.
#[derive(Clone, Default)]
pub struct Chain(Option<Arc<[Arc<dyn Interceptor>]>>);

impl Chain {
    /// Adds an interceptor, inside of the existing ones.
    pub fn push(&mut self, interceptor: impl Interceptor) {
        let inner: Arc<dyn Interceptor> = Arc::new(interceptor);
        self.0 = Some(self.list().iter().cloned().chain([inner]).collect());
    }

    /// The interceptors, the outermost first.
    pub fn list(&self) -> &[Arc<dyn Interceptor>] {
        self.0.as_deref().unwrap_or_default()
    }

    /// The interceptors around the methods of a service, or `None` if there are none.
    pub fn around(&self, service: &ServiceRef) -> Option<Arc<Around>> {
        let around = || Around { chain: self.clone(), service: service.clone(), calls_grpc: false };
        self.0.is_some().then(|| Arc::new(around()))
    }

    /// Like [`Chain::around`], for calls of a service that this end makes over gRPC.
    #[cfg(feature = "grpc")]
    pub fn around_grpc(&self, service: &ServiceRef) -> Option<Arc<Around>> {
        let around = || Around { chain: self.clone(), service: service.clone(), calls_grpc: true };
        self.0.is_some().then(|| Arc::new(around()))
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("count", &self.list().len()).finish_non_exhaustive()
    }
}

/// Interceptors around the methods of a service.
#[derive(Debug)]
pub struct Around {
    /// The interceptors.
    pub chain: Chain,
    /// The service.
    pub service: ServiceRef,
    /// Whether these are calls that this end makes over gRPC.
    pub(super) calls_grpc: bool,
}

/// Interceptors, and the index of the method around which they run.
pub type Hooks = (Arc<Around>, u16);
