//! Bounds of operators' connections.

use std::time::Duration;

use petasos::grpc::{GrpcConfig, Keepalive};

/// Bounds of what operators, and those who want to be some, may do. A connection that does nothing
/// ends; one that stalls within a call ends with its age.
pub fn bounds() -> GrpcConfig {
    let mut config = GrpcConfig::default();
    config.receive_bytes_max = petasos_admin::REQUEST_BYTES_MAX;
    config.streams_max = 8;
    config.connections_max = 64;
    config.connections_per_address_max = 8;
    config.header_bytes_max = 8 << 10;
    config.stream_window_bytes = 64 << 10;
    config.compress = false;
    config.handshake_timeout = Duration::from_secs(5);
    let (interval, timeout) = (Duration::from_secs(10), Duration::from_secs(5));
    config.keepalive = Some(Keepalive { interval, timeout, without_calls: true });
    config.idle_timeout = Some(Duration::from_secs(60));
    config.age_max = Some(Duration::from_secs(600));
    config.age_grace = Some(Duration::from_secs(10));
    config
}
