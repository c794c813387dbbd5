//! Lists of interceptors, and what is around a service's methods.

use core::fmt;
use std::sync::Arc;

use super::Interceptor;
use crate::descriptors::ServiceInfo;

/// Interceptors, the outermost first. Nothing is allocated if there are none.
#[derive(Clone, Default)]
pub struct Chain(Option<Arc<[Arc<dyn Interceptor>]>>);

impl Chain {
    /// Adds one within those that there are.
    pub fn push(&mut self, interceptor: impl Interceptor) {
        let inner: Arc<dyn Interceptor> = Arc::new(interceptor);
        self.0 = Some(self.list().iter().cloned().chain([inner]).collect());
    }

    /// The interceptors, the outermost first.
    pub fn list(&self) -> &[Arc<dyn Interceptor>] {
        self.0.as_deref().unwrap_or_default()
    }

    /// What is around the methods of a service, unless it is nothing.
    pub fn around(&self, service: &'static ServiceInfo) -> Option<Arc<Around>> {
        let around = || Around { chain: self.clone(), service, calls_grpc: false };
        self.0.is_some().then(|| Arc::new(around()))
    }

    /// Likewise, around calls of a service that are made over gRPC.
    #[cfg(feature = "grpc")]
    pub fn around_grpc(&self, service: &'static ServiceInfo) -> Option<Arc<Around>> {
        let around = || Around { chain: self.clone(), service, calls_grpc: true };
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
    pub service: &'static ServiceInfo,
    /// They are calls that are made here, over gRPC.
    pub(super) calls_grpc: bool,
}

/// Interceptors, and the index of the method that they are around.
pub type Hooks = (Arc<Around>, u16);
