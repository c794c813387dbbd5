//! Pings that detect a peer that is gone.

use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};

use crate::config::Keepalive;

/// Returns when the peer has not answered a ping in time; never without `keepalive`. Before each
/// ping it asks whether one is wanted.
pub(crate) async fn watch(
    pings: Option<PingPong>,
    keepalive: Option<Keepalive>,
    is_wanted: impl Fn() -> bool,
) {
    let (Some(mut pings), Some(times)) = (pings, keepalive) else {
        return std::future::pending().await;
    };
    loop {
        sleep(times.interval).await;
        if !is_wanted() {
            continue;
        }
        match timeout(times.timeout, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection itself has failed; the task that drives it reports that.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
