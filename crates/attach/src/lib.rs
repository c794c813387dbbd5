//! How an application attaches to the managed service of its host, and the lanes and heaps that
//! both then share (D1, D12 of `docs/spec/abi.md`; ADR 17 and 18).
//!
//! The service has a [`Listener`] at a path. A process that connects and sends a hello becomes an
//! [`Applicant`]. If the service accepts it, it becomes an [`Attached`]: the service's side of two
//! heaps and some lanes. The application has an [`Attachment`]. Both have a [`Lane`] for each
//! thread that makes or serves calls. A lane carries `petasos_abi`'s descriptors in both
//! directions, and wakes sleeping consumers.
//!
//! ```
//! use std::time::Duration;
//!
//! use petasos_abi::{CallNumber, Descriptor, Side};
//! use petasos_attach::hello::Hello;
//! use petasos_attach::{Attachment, Listener, ListenerConfig, Terms};
//! use petasos_base::SystemClock;
//! use petasos_shm::HeapKind;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = std::env::temp_dir().join(format!("petasos-attach-doc-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! let path = folder.join("petasosd.sock");
//! let mut listener = Listener::bind(&path, ListenerConfig::default())?;
//!
//! // The service, as its event loop would do it. (This one asks again and again.)
//! let service = std::thread::spawn(move || {
//!     let clock = SystemClock::default();
//!     let applicant = loop {
//!         if let Some(applicant) = listener.poll(clock.now()).expect("it can accept") {
//!             break applicant;
//!         }
//!     };
//!     assert_eq!(applicant.hello().name.as_str(), "example");
//!     let mut attached = applicant.accept(&Terms::default()).expect("there is memory");
//!     loop {
//!         if attached.turn(clock.now(), |_| {}).is_err() {
//!             return "the application has detached";
//!         }
//!         let lane = &mut attached.lanes()[0];
//!         if let Some(Descriptor::Close { call }) = lane.pop().expect("it is honest") {
//!             lane.push(&Descriptor::Grant { call, bytes: 4096 }).expect("the ring is empty");
//!             lane.flush();
//!         }
//!     }
//! });
//!
//! // The application.
//! let hello = Hello::new("example", 1)?;
//! let mut attachment = Attachment::connect(&path, &hello, Duration::from_secs(10))?;
//! let extent = attachment.grow(HeapKind::Send, 100_000)?;
//! assert_eq!((extent.offset, extent.bytes), (0, 2 << 16));
//!
//! let call = CallNumber::new(Side::Application, 1);
//! let mut lane = attachment.take_lanes().remove(0);
//! lane.push(&Descriptor::Close { call })?;
//! lane.flush();
//! let answer = loop {
//!     match lane.pop()? {
//!         Some(answer) => break answer,
//!         None => lane.wait(Duration::from_secs(10))?,
//!     };
//! };
//! assert_eq!(answer, Descriptor::Grant { call, bytes: 4096 });
//! drop((attachment, lane));
//! assert_eq!(service.join().expect("it does not panic"), "the application has detached");
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Trust
//!
//! The service does not trust applications. Whatever an application sends, writes or leaves undone,
//! the service neither panics nor waits, and the cost is bounded ([`ListenerConfig`], [`Terms`]).
//! An application trusts the service. It still checks what the service sends, so that a mistake
//! becomes an error.
//!
//! # The parts
//!
//! [`frame`], [`hello`], [`reason`] and [`message`] define the messages on the socket, as values
//! and as bytes. [`session`] defines when each may be sent. These modules do no I/O; the rest uses
//! them.
//!
//! Boundary rule: knows sockets, lanes and heaps; not calls, schemas or engines. No `unsafe`.

pub mod ask;
mod attached;
mod attachment;
mod credentials;
mod ended;
pub mod frame;
pub mod hello;
pub mod kind;
mod lane;
mod listener;
pub mod message;
pub mod packet;
mod places;
pub mod reason;
pub mod session;
mod socket;

pub use attached::{AcceptError, Attached, ChangeError, Event, Terms};
pub use attachment::{AskError, Attachment, Changed, ConnectError, GrowError};
pub use credentials::Credentials;
pub use ended::Ended;
pub use lane::{Lane, LaneError, PushError, UNASKED_BYTES_MAX, WAKE_BYTES_PER_TURN, Woken};
pub use listener::{Applicant, Bound, ListenError, Listener, ListenerConfig, ListenerStats};
