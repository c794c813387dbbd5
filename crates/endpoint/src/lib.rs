//! The endpoint: one thread's event loop for RPCs.
//!
//! An [`Endpoint`] joins the protocol (`proto`), a clock and packet I/O in one event loop. It owns
//! its sessions, buffers and queues; nothing in it is shared, so nothing needs a lock. The
//! application's state `S` is stored in the endpoint and passed to handlers and continuations,
//! which are plain functions.
//!
//! Who may touch what: only the thread that runs the endpoint.
//!
//! One turn of the loop ([`Endpoint::run_once`]), in this order:
//! 1. read the clock once;
//! 2. handle mail from other threads, if the mailbox's flag is set;
//! 3. receive one batch of frames; take the steps that methods have before any of its requests is
//!    handled ([`Endpoint::prepare`]); run handlers and continuations as they complete;
//! 4. run due timers, then the application's own work ([`Endpoint::on_turn`]);
//! 5. let every session with an event send;
//! 6. pass the transmit queue to the packet I/O in batches.
//!
//! Other threads reach an endpoint only through its mailbox: the process's [`Node`], which sets
//! sessions up and notices failed peers; worker threads ([`WorkerPool`]); and holders of a
//! [`Notifier`]. [`Polling`] sets how the loop waits when there is nothing to do.
//!
//! Calls end in continuations. The layer above (`petasos`) provides futures for them.
//!
//! The transmit queue holds *references* (session, slot, request number, packet index), never
//! pointers. A reference is resolved when it is sent, and dropped if the slot has gone on to
//! another request. So a call that has completed, failed or been cancelled leaves nothing in the
//! queue that could touch its buffer (eRPC, section 4.2.2 and appendix B).
//!
//! The modules, from below:
//! - requests, calls, sessions and their secrets as data; `backend`; queues and timers;
//! - what threads tell each other (`mail`, `mailbox`), the process among others (`node`), worker
//!   threads, and the endpoint's link to all of these (`outside`);
//! - `core`: [`Context`], and everything of an endpoint except its packet I/O; `receive`: from
//!   frames to handlers and continuations;
//! - `endpoint`: the loop; and modules built on it: `setup`, `attach` and `incoming` (sessions),
//!   `polling`, `hooks`, `workers`, `groups` (of workers, by routers), `called_groups` and
//!   `served_groups` (the same by way of the node), `shut_down`.
//!
//! Boundary rule: the only crate that sees both `proto` and `netio`.

mod attach;
mod backend;
pub mod by_hand;
mod call;
mod called_epochs;
mod called_groups;
mod config;
mod congestion;
mod core;
mod endpoint;
mod enrolment;
mod error;
mod external;
mod fair_queue;
mod group;
mod group_members;
pub mod group_router;
mod groups;
mod guard;
mod handler;
mod hooks;
mod incoming;
mod kept;
mod mail;
mod mailbox;
mod method_table;
mod no_packets;
mod node;
mod outside;
mod parameters;
mod peer_key;
mod peers;
mod placing;
mod polling;
mod quota;
mod receive;
mod renamed_routers;
mod router_list;
mod sealed_links;
mod secure;
mod served_bound;
mod served_groups;
mod sessions;
mod setup;
mod shut_down;
mod stats;
mod succeeded;
mod switches;
mod tags;
mod timers;
mod timespec;
mod tx_queue;
mod used_attachment;
mod worker_method;
mod worker_pool;
mod worker_threads;
mod workers;

pub use crate::core::{
    AbandonedHook, Context, Continuation, Handler, PrepareStep, SleepHook, SucceededHook, TurnHook,
};
pub use backend::Backend;
pub use call::{CallError, CallId, CallSettings, Completion, EnqueueError, Refused};
pub use config::{EndpointConfig, Polling, SessionConfig};
pub use endpoint::Endpoint;
pub use error::{AttachError, ConnectAndWaitError, ConnectError, NodeError, SessionError};
pub use external::{ExternalAnswer, ExternalEvent, ExternalLimits};
pub use group::{GroupError, MembershipId, MembershipOffer, RoutePolicy, RouterProcess, Routing};
pub use group_members::{
    AtRouter, GroupConfig, GroupId, GroupOpenError, ServeConfig, ServedGroupId,
};
pub use handler::{Payload, Request, RequestHandle, RequestKey, ServerSessionId};
pub use hooks::Notifier;
pub use mailbox::Mailbox;
pub use method_table::MethodNames;
pub use no_packets::NoPackets;
pub use node::{Credentials, HasRouter, Node, NodeConfig, NodeStats, RouterWaker, TlsConfig};
pub use peer_key::PeerKey;
pub use peers::ServedPeer;
pub use petasos_base::{Clock, Time, VirtualClock};
pub use petasos_buf::{MsgBuf, PoolConfig, PoolError, PoolStats};
pub use petasos_control::{
    AttachGrant, DataAddress, FailureReason, Fault, JoinGrant, ProtocolError, RefuseCode,
};
pub use petasos_netio::Switch;
#[cfg(feature = "fabric")]
pub use petasos_netio_fabric::{FabricConfig, FabricIo};
pub use petasos_netio_local::{LocalConfig, LocalIo, LocalPolicy};
pub use petasos_netio_shm::{RingShape, ShmConfig};
pub use petasos_netio_tcp::{TcpConfig, TcpIo};
pub use petasos_netio_udp::UdpConfig;
pub use petasos_proto::{
    AlgorithmConfig, CongestionConfig, DctcpConfig, Recovery, SessionParams, SwiftConfig,
    TimelyConfig, TimerConfig,
};
pub use petasos_seal::{Cipher, KeyLife, SessionSecret};
pub use petasos_tls::{CertificateFlaw, HandshakeFailure, Identity, Pem, PemFiles};
pub use petasos_wire::{Encoding, RejectCode};
pub use router_list::RouterFailure;
pub use secure::SessionSecurity;
pub use sessions::{SessionId, SessionOffer, SessionState};
pub use shut_down::Unfinished;
pub use stats::{EndpointStats, MemoryStats};
pub use switches::Switches;
pub use worker_method::{WorkerHandler, WorkerRequest};
pub use worker_pool::WorkerPool;
