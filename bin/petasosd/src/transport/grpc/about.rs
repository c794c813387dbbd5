//! What the port says of itself: gRPC's health checks and server reflection.
//!
//! The service answers them itself, whatever its applications serve under these names: an
//! application knows its own services only. No policies see them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos::grpc::Routes;
use petasos::rt::{self, ServiceInfo};
use petasos::{ServeError, grpc_routes};
use petasos_health::{HealthReporter, ServingStatus};
use petasos_reflection::Reflection;

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
    known: Vec<&'static ServiceInfo>,
    /// Counts changes of what is known.
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

    /// Describes these services, and says which of them are served now.
    pub fn publish(&self, known: &[&'static ServiceInfo], is_served: impl Fn(&str) -> bool) {
        for info in known {
            let status = match is_served(info.name) {
                true => ServingStatus::SERVING,
                false => ServingStatus::NOT_SERVING,
            };
            if self.reporter.status(info.name) != Some(status) {
                self.reporter.set(info.name, status);
            }
        }
        let mut described = self.described();
        described.known = known.iter().filter(|info| is_served(info.name)).copied().collect();
        (described.version, described.routes) = (described.version + 1, None);
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
        let (known, version) = {
            let described = self.described();
            if let Some(routes) = &described.routes {
                return Some(routes[at].clone());
            }
            (described.known.clone(), described.version)
        };
        // Without the lock, for which the daemon's thread would wait.
        let routes = reflection(&known);
        let mut described = self.described();
        if described.version == version {
            described.routes = Some(routes.clone());
        }
        Some(routes[at].clone())
    }
}

fn reflection(known: &[&'static ServiceInfo]) -> [Arc<dyn Routes>; 2] {
    let mut reflection = Reflection::new();
    reflection.describe(&petasos_health::service().1);
    known.iter().for_each(|info| reflection.describe(&Of(info)));
    let (v1, v1alpha) = reflection.services();
    [grpc_routes(v1), grpc_routes(v1alpha)].map(|routes| routes.expect("it has all its methods"))
}

/// A service that is only described.
struct Of(&'static ServiceInfo);

impl rt::Service for Of {
    fn info(&self) -> &'static ServiceInfo {
        self.0
    }

    fn methods(self, _: &mut rt::Methods) {}
}
