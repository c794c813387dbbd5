//! Spans that are sent to a collector.

use std::sync::mpsc::Sender;

use tokio::sync::oneshot::Receiver;

use super::service::Front;
use crate::control::World;
use crate::otlp::{Exporter, Recorders};

/// Sends what policies have recorded, again and again, and once more when it is told of those that
/// there are at the loop's end.
pub async fn export(
    front: Front,
    mut exporter: Exporter,
    (mut last, exported): (Receiver<Option<Recorders>>, Sender<()>),
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(exporter.every()) => {
                // With too many requests of operators, it is looked later.
                let recorders = front.0.ask(|world: &mut World<'_>| Ok(recorders(world))).await;
                if let Ok(Some(recorders)) = recorders {
                    exporter.export(recorders).await;
                }
            }
            recorders = &mut last => {
                if let Ok(Some(recorders)) = recorders {
                    exporter.export(recorders).await;
                }
                // Nobody may wait for it any more.
                let _ = exported.send(());
                return;
            }
        }
    }
}

/// None if no policy records spans.
pub fn recorders(world: &World<'_>) -> Option<Recorders> {
    let all = world.policies_in_use().into_iter();
    let tracing = all.filter(|known| known.made.kind_name() == "tracing");
    let policies: Vec<_> = tracing.map(|known| known.made.policy.clone()).collect();
    (!policies.is_empty()).then(|| Recorders { policies, host: world.first.common.host.clone() })
}
