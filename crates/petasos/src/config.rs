//! The parts of a [`LoopConfig`]: settings of its endpoint, its sockets and its rings.
//!
//! These settings belong to the transport. Their defaults suit most programs. Change a field only
//! if a measurement shows a need.
//!
//! ```
//! use std::time::Duration;
//!
//! use petasos::config::{
//!     AlgorithmConfig, CongestionConfig, EndpointConfig, LocalConfig, LocalPolicy, PoolConfig,
//!     Polling, Recovery, SessionConfig, SwiftConfig, TimerConfig, UdpConfig,
//! };
//! use petasos::{Loop, LoopConfig, Server};
//!
//! let swift = AlgorithmConfig::Swift(SwiftConfig::default());
//! let config = LoopConfig {
//!     endpoint: EndpointConfig {
//!         polling: Polling::Adaptive { spin: Duration::from_millis(1) },
//!         session: SessionConfig {
//!             slots: 32,
//!             checksum: true,
//!             recovery: Recovery::Selective,
//!             ..SessionConfig::default()
//!         },
//!         congestion: Some(CongestionConfig { algorithm: swift, ..CongestionConfig::default() }),
//!         timers: TimerConfig::default(),
//!         pool: PoolConfig::default(),
//!         ..EndpointConfig::default()
//!     },
//!     // Use datagrams between processes of this host, too.
//!     io: LocalConfig {
//!         local: LocalPolicy::Never,
//!         udp: UdpConfig { gro: false, ..UdpConfig::default() },
//!         ..LocalConfig::default()
//!     },
//!     ..LoopConfig::default()
//! };
//! let server = Server::builder().loop_config(config.clone()).listen("127.0.0.1:0").start()?;
//! assert!(server.local_address().is_some());
//! let event_loop = Loop::new(config)?;
//! assert!(event_loop.local_address().is_none(), "it only calls");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`LoopConfig`]: crate::LoopConfig

#[cfg(feature = "fabric")]
pub use petasos_endpoint::FabricConfig;
pub use petasos_endpoint::{
    AlgorithmConfig, CongestionConfig, DctcpConfig, EndpointConfig, KeyLife, LocalConfig,
    LocalPolicy, Polling, PoolConfig, Recovery, RingShape, SessionConfig, ShmConfig, SwiftConfig,
    Switch, TcpConfig, TimelyConfig, TimerConfig, UdpConfig,
};
