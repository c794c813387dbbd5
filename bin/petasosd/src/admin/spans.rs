//! Spans that are sent to a collector.

use super::service::Front;
use crate::control::World;
use crate::otlp::{Exporter, Recorders};

/// Sends what policies have recorded, again and again.
pub async fn export(front: Front, mut exporter: Exporter) {
    loop {
        tokio::time::sleep(exporter.every()).await;
        // With too many requests of operators, it is looked later.
        let recorders = front.0.ask(|world: &mut World<'_>| Ok(recorders(world))).await;
        if let Ok(Some(recorders)) = recorders {
            exporter.export(recorders).await;
        }
    }
}

/// None if no policy records spans.
fn recorders(world: &World<'_>) -> Option<Recorders> {
    let all = world.policies_in_use().into_iter();
    let tracing = all.filter(|known| known.made.kind_name() == "tracing");
    let policies: Vec<_> = tracing.map(|known| known.made.policy.clone()).collect();
    (!policies.is_empty()).then(|| Recorders { policies, host: world.first.common.host.clone() })
}
