//! Pings, so that a peer that is gone is noticed.

use h2::{Ping, PingPong};
use tokio::time::{sleep, timeout};

use crate::config::Keepalive;

/// Ends when the peer has not answered a ping in time; never without `keepalive`. Whether a ping is
/// wanted is asked before each.
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
            // The connection itself has failed, and says so to whoever drives it.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
