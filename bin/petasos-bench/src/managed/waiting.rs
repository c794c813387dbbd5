//! How processes wait that share a core with a neighbour.

use std::time::Duration;

use petasos_endpoint::{EndpointConfig, Polling};
use petasos_proto::CongestionConfig;

/// How long a loop looks for work before it sleeps.
pub const SPIN: Duration = Duration::from_micros(50);
/// Meanwhile it gives up the core when a neighbour could use it.
pub const YIELD: Polling = Polling::Yield { spin: SPIN };

/// The configuration of endpoints whose core is also a proxy's.
///
/// Congestion control is off. Here it measures how long a neighbour has the core, takes that for a
/// full queue, and slows down until calls seem lost. Credits still keep sockets from overflowing.
pub fn sharing() -> EndpointConfig {
    let congestion = Some(CongestionConfig::none());
    EndpointConfig { polling: YIELD, congestion, ..EndpointConfig::default() }
}
