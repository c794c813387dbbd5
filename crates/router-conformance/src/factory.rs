//! What a plane is tested with.

use petasos_netio_conformance::BackendFactory;
use petasos_router_plane::{Plane, PlaneConfig, Tier};

/// Makes ports, and perhaps a tier before the plane.
pub trait PlaneFactory: BackendFactory {
    /// A tier for the plane that has this port, unless planes are tested without one.
    fn tier(&self, router: &Self::Io, config: &PlaneConfig) -> Option<TestedTier> {
        let _ = (router, config);
        None
    }

    /// Whether feedback comes to a port of its own, and another loop hears it.
    fn is_split(&self) -> bool {
        false
    }
}

/// A tier, and what it has done.
pub struct TestedTier {
    /// The plane's.
    pub tier: Box<dyn Tier>,
    /// What it has done until now.
    pub counts: Box<dyn Fn() -> TierCounts>,
}

/// What a tier has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct TierCounts {
    /// Packets that it has not passed on.
    pub taken: u64,
    /// Packets that it has sent.
    pub sent: u64,
    /// How many requests wait there.
    pub parked: u64,
}

/// A plane for a port, with the tier that the factory puts before it.
pub(crate) fn planned<F: PlaneFactory>(
    factory: &F,
    router: &F::Io,
    config: &PlaneConfig,
) -> (Plane, Option<Box<dyn Fn() -> TierCounts>>) {
    let tested = factory.tier(router, config);
    let mut config = config.clone();
    if let Some(TestedTier { tier, .. }) = &tested {
        config.core.workers_max = config.core.workers_max.min(tier.workers_max());
    }
    let mut plane = Plane::new(&config, 1).expect("it is right");
    let counts = tested.map(|TestedTier { tier, counts }| {
        plane.set_tier(tier);
        counts
    });
    (plane, counts)
}
