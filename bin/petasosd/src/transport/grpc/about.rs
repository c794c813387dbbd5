//! What the port says of itself: gRPC's health checks and server reflection.
//!
//! The service answers them itself, whatever its applications serve under these names: an
//! application knows its own services only. No policies see them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos::grpc::Routes;
use petasos::rt::{self, ServiceRef};
use petasos::{ServeError, grpc_routes};
use petasos_health::{HealthReporter, ServingStatus};
use petasos_reflection::Reflection;

use super::super::known::Known;

const HEALTH: &str = "/grpc.health.v1.Health/";
const V1: &str = "/grpc.reflection.v1.ServerReflection/";
const V1ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/";

/// Health and reflection.
pub struct About {
    reporter: HealthReporter,
    health: Arc<dyn Routes>,
    described: Mutex<Described>,
}

/// What reflection describes.
#[derive(Default)]
struct Described {
    served: Vec<ServiceRef>,
    /// Counts changes of what is served.
    version: u64,
    /// Of both versions. Made when they are first asked for: that takes long, and the daemon's
    /// thread is not to wait for it.
    routes: Option<[Arc<dyn Routes>; 2]>,
}

impl About {
    /// The whole is serving, and nothing is described.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn new() -> Result<About, ServeError> {
        let (reporter, health) = petasos_health::service();
        let health = grpc_routes(health)?;
        Ok(About { reporter, health, described: Mutex::default() })
    }

    /// Says which of these services are served now, those with a descriptor, and describes them.
    pub fn publish(&self, all: Vec<(&Arc<Known>, Option<ServiceRef>)>) {
        for (known, served) in &all {
            let status = match served {
                Some(_) => ServingStatus::SERVING,
                None => ServingStatus::NOT_SERVING,
            };
            if self.reporter.status(&known.name) != Some(status) {
                self.reporter.set(&known.name, status);
            }
        }
        let served = all.into_iter().filter_map(|(_, served)| served).collect();
        let mut described = self.described();
        let before = (std::mem::replace(&mut described.served, served), described.routes.take());
        described.version += 1;
        drop(described);
        // Without the lock: it may be long.
        drop(before);
    }

    fn described(&self) -> MutexGuard<'_, Described> {
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who answers a path, if it is one of these.
    pub fn routes(&self, path: &str) -> Option<Arc<dyn Routes>> {
        if path.starts_with(HEALTH) {
            return Some(self.health.clone());
        }
        let at = [V1, V1ALPHA].iter().position(|service| path.starts_with(service))?;
        let (served, version) = {
            let described = self.described();
            if let Some(routes) = &described.routes {
                return Some(routes[at].clone());
            }
            (described.served.clone(), described.version)
        };
        // Without the lock, for which the daemon's thread would wait.
        let routes = reflection(served);
        let mut described = self.described();
        if described.version == version {
            described.routes = Some(routes.clone());
        }
        Some(routes[at].clone())
    }
}

fn reflection(served: Vec<ServiceRef>) -> [Arc<dyn Routes>; 2] {
    let mut reflection = Reflection::new();
    reflection.describe(&petasos_health::service().1);
    served.into_iter().for_each(|service| reflection.describe(&Of(service)));
    let (v1, v1alpha) = reflection.services();
    [grpc_routes(v1), grpc_routes(v1alpha)].map(|routes| routes.expect("it has all its methods"))
}

/// A service that is only described.
struct Of(ServiceRef);

impl rt::Service for Of {
    fn info(&self) -> ServiceRef {
        self.0.clone()
    }

    fn methods(self, _: &mut rt::Methods) {}
}
