//! Who is in a group: the router's part of the control protocol (`docs/spec/route.md`, RT28 to
//! RT36).
//!
//! A [`RouterService`] makes a node the router of a group. Clients attach and workers join at the
//! node's address; a thread of its own turns the group's plane (`petasos-router-plane`), which has
//! their packets. Both meet in two mailboxes and share nothing else. A group with services in its
//! settings has one table of methods (`petasos-router-table`): another thread answers clients'
//! binds, and judges workers before they join (RT31).
//!
//! The modules, from below: `change_log` (what has changed since a reader looked), `epochs`,
//! `numbers` (of whom there are how many), `secrets`, `config`, `plane_thread`, `methods` (the
//! table, as it is told), `links` (what each connection was told), `group` (who may, and who is
//! there), `operator` (what operators see and change, with `desk`, `snapshot` and `overrides` below
//! it), `service`.
//!
//! ```
//! use std::time::Duration;
//!
//! use petasos_endpoint::{
//!     CallSettings, Clock, Endpoint, EndpointConfig, GroupConfig, MsgBuf, Node, NodeConfig,
//!     Routing, ServeConfig,
//! };
//! use petasos_netio_udp::{UdpConfig, UdpIo};
//! use petasos_router_control::{GroupSettings, RouterService};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const ECHO: u16 = 1;
//! let local = "127.0.0.1:0".parse()?;
//! let udp = || UdpIo::bind(local, UdpConfig::default());
//!
//! // The router: a node for its connections, a thread for its packets.
//! let node = Node::start(NodeConfig { listen: Some(local), ..NodeConfig::default() })?;
//! let _router = RouterService::start(&node, udp()?, GroupSettings::default())?;
//! let routers = vec![node.local_address().expect("it listens")];
//!
//! // A worker. It usually is a process of its own.
//! let members = Node::start(NodeConfig::default())?;
//! let mut worker = Endpoint::new(EndpointConfig::default(), udp()?, Clock::system(), ());
//! worker.register(ECHO, |_, cx, request| cx.respond_with(request.handle, &request.payload));
//! worker.attach(&members)?;
//! worker.serve_group(&ServeConfig { routers: routers.clone(), ..ServeConfig::default() })?;
//!
//! // A client, which counts its answers.
//! let mut client = Endpoint::new(EndpointConfig::default(), udp()?, Clock::system(), 0);
//! client.attach(&members)?;
//! let group = client.open_group(&GroupConfig { routers, ..GroupConfig::default() })?;
//! let mut is_called = false;
//! while *client.state() == 0 {
//!     worker.run_for(Duration::from_millis(1), |_, _| false);
//!     client.run_for(Duration::from_millis(1), |_, _| false);
//!     let cx = client.context();
//!     let knows_worker = cx.group_routers(group).iter().any(|at| at.peers == 1);
//!     let Some(session) = cx.group_session(group).filter(|_| knows_worker && !is_called) else {
//!         continue;
//!     };
//!     let (settings, routing) = (CallSettings::default(), Routing::default());
//!     let request = MsgBuf::from_slice(b"hello");
//!     let answered = |count: &mut u32, _: &mut _, done: petasos_endpoint::Completion<'_>| {
//!         assert_eq!(done.result.expect("it is answered").as_slice(), b"hello");
//!         *count += 1;
//!     };
//!     cx.enqueue_routed(session, ECHO, request, answered, 0, &settings, routing)
//!         .expect("there is room");
//!     is_called = true;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Boundary rule: knows no schemas, which are the table's, and no files or operators, which are the
//! program's.
//!
//! Over TLS a group is sealed: the router draws a secret for each epoch and tells it to workers,
//! and to each client its own (RT27, RT30).
//!
//! Not here yet: layouts in tables, and tables that change (RT31). Which of several routers is the
//! active one, the program says (RT38).

#![forbid(unsafe_code)]

mod change_log;
mod config;
mod desk;
mod epochs;
mod feedback_thread;
mod group;
mod idle;
mod links;
mod methods;
mod numbers;
mod operator;
mod overrides;
mod plane_thread;
mod secrets;
mod service;
mod snapshot;

pub use config::{GroupSettings, Workers};
pub use epochs::EpochTimes;
pub use operator::{Operator, WorkerChange};
pub use petasos_control::{Active, Cipher};
pub use petasos_router::{Adjustment, Policy, WorkerState};
pub use petasos_router_plane::{ClientCounts, PlaneConfig, Tier, TierStats};
pub use petasos_router_table::{BindServerError, NamesError};
pub use service::{RouterService, StartError};
pub use snapshot::{ClientSnapshot, GroupSnapshot, MemberSettings, WorkerSnapshot};
