//! Limits and times of connections.

use std::net::IpAddr;
use std::time::Duration;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;
/// No limit of a connection's own: what one stream does not read must not stop the others, and
/// each has its own window.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// When a connection without traffic is asked whether it still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Between one ping's answer and the next ping.
    pub interval: Duration,
    /// How long an answer may take before the connection is given up.
    pub timeout: Duration,
    /// A client's: whether it pings while it has no calls, which servers may forbid.
    pub without_calls: bool,
}

impl Default for Keepalive {
    fn default() -> Keepalive {
        let (interval, timeout) = (Duration::from_secs(60), Duration::from_secs(20));
        Keepalive { interval, timeout, without_calls: false }
    }
}

/// How often clients may ping (gRPC's proposal A8). A client that does so more often, three times
/// without having been sent anything, is told `too_many_pings`, and its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingLimit {
    /// Between two pings.
    pub interval_min: Duration,
    /// Whether clients may ping so often without calls; otherwise it is once in two hours.
    pub without_calls: bool,
}

impl Default for PingLimit {
    fn default() -> PingLimit {
        PingLimit { interval_min: Duration::from_secs(5 * 60), without_calls: false }
    }
}

/// What a server grants to its peers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GrpcConfig {
    /// Longest message that is taken, in bytes, before and after decompression.
    pub receive_bytes_max: usize,
    /// Calls at a time on one connection.
    pub streams_max: u32,
    /// Connections at a time; more wait to be accepted.
    pub connections_max: usize,
    /// Connections of one address at a time; more are closed at once. A client has one, a proxy
    /// some.
    pub connections_per_address_max: usize,
    /// Longest header list that is taken, in bytes as RFC 9113 counts them.
    pub header_bytes_max: u32,
    /// Bytes that a client may send on one stream before they are taken.
    pub stream_window_bytes: u32,
    /// The same for all streams of a connection. Less than all their windows together lets those
    /// that are not read stop the others.
    pub connection_window_bytes: u32,
    /// Bytes that a stream keeps for a client that does not take them, a message apart.
    pub send_buffer_bytes: usize,
    /// Whether responses to compressed requests are compressed.
    pub compress: bool,
    /// Messages shorter than this are not compressed, in bytes.
    pub compress_bytes_min: usize,
    /// How long TLS and the beginning of HTTP/2 may take.
    pub handshake_timeout: Duration,
    /// Pings; none without it.
    pub keepalive: Option<Keepalive>,
    /// How often clients may ping; as they like without it.
    pub ping_limit: Option<PingLimit>,
    /// How long a connection may have no calls before its client is told to leave it; for ever
    /// without it.
    pub idle_timeout: Option<Duration>,
    /// How long a connection lives, a tenth more or less, before its client is told to leave it
    /// for another; for ever without it. It spreads clients over servers that are new.
    pub age_max: Option<Duration>,
    /// How long the calls of such a connection may run on; for ever without it.
    pub age_grace: Option<Duration>,
    /// Whether the port may be in the clear beyond this host, where whoever reaches the network can
    /// listen and call.
    pub plaintext: bool,
    /// TLS; cleartext without it.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::ServerTls>,
}

impl Default for GrpcConfig {
    fn default() -> GrpcConfig {
        GrpcConfig {
            receive_bytes_max: 4 * MIB as usize,
            streams_max: 256,
            connections_max: 16_384,
            connections_per_address_max: 4096,
            header_bytes_max: 32 * KIB,
            stream_window_bytes: 256 * KIB,
            connection_window_bytes: WINDOW_BYTES_MAX,
            send_buffer_bytes: 256 * KIB as usize,
            compress: true,
            compress_bytes_min: petasos_call::Codec::BODY_BYTES_MIN,
            handshake_timeout: Duration::from_secs(10),
            keepalive: Some(Keepalive::default()),
            ping_limit: Some(PingLimit::default()),
            idle_timeout: None,
            age_max: None,
            age_grace: None,
            plaintext: false,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

/// What a client grants to its server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Longest message that is taken, in bytes, before and after decompression.
    pub receive_bytes_max: usize,
    /// Longest header list that is taken, in bytes as RFC 9113 counts them.
    pub header_bytes_max: u32,
    /// Bytes that the server may send on one stream before they are taken.
    pub stream_window_bytes: u32,
    /// The same for all streams of the connection; see [`GrpcConfig::connection_window_bytes`].
    pub connection_window_bytes: u32,
    /// Bytes that a stream keeps for a server that does not take them, a message apart.
    pub send_buffer_bytes: usize,
    /// How requests are compressed, for who calls by generated clients.
    pub compression: crate::Compression,
    /// Messages shorter than this are not compressed, in bytes.
    pub compress_bytes_min: usize,
    /// How long connecting may take, TLS and the beginning of HTTP/2 included.
    pub connect_timeout: Duration,
    /// Pings; none without it, as some servers end connections that ping often.
    pub keepalive: Option<Keepalive>,
    /// Whether servers beyond this host may be called in the clear.
    pub plaintext: bool,
    /// TLS; cleartext without it.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::ClientTls>,
}

impl GrpcConfig {
    /// Whether a port at `ip` would be in the clear for other hosts although nobody wants that.
    pub fn forbids(&self, ip: IpAddr) -> bool {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return false;
        }
        !self.plaintext && is_beyond_this_host(ip)
    }
}

impl ClientConfig {
    /// Whether calls to `ip` would leave this host in the clear although nobody wants that.
    pub fn forbids(&self, ip: IpAddr) -> bool {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return false;
        }
        !self.plaintext && is_beyond_this_host(ip)
    }
}

/// Also for "any address", `0.0.0.0` and `::`.
fn is_beyond_this_host(ip: IpAddr) -> bool {
    !ip.to_canonical().is_loopback()
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        let server = GrpcConfig::default();
        ClientConfig {
            receive_bytes_max: server.receive_bytes_max,
            header_bytes_max: server.header_bytes_max,
            stream_window_bytes: MIB,
            connection_window_bytes: server.connection_window_bytes,
            send_buffer_bytes: server.send_buffer_bytes,
            compression: crate::Compression::Identity,
            compress_bytes_min: server.compress_bytes_min,
            connect_timeout: Duration::from_secs(20),
            keepalive: None,
            plaintext: false,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_this_host_cleartext_takes_consent() {
        for (text, forbidden) in [
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("0.0.0.0", true),
            ("::", true),
            ("10.0.0.1", true),
            ("fe80::1", true),
            ("::ffff:10.0.0.1", true),
        ] {
            let ip = text.parse().expect("an address");
            assert_eq!(GrpcConfig::default().forbids(ip), forbidden, "{text}");
            assert_eq!(ClientConfig::default().forbids(ip), forbidden, "{text}");
            assert!(!GrpcConfig { plaintext: true, ..GrpcConfig::default() }.forbids(ip), "{text}");
            let client = ClientConfig { plaintext: true, ..ClientConfig::default() };
            assert!(!client.forbids(ip), "{text}");
        }
    }
}
