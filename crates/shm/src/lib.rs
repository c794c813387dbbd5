//! Memory that two processes share, and rings in it, between processes that do not trust each
//! other.
//!
//! A *region* is a sealed memfd with two rings, one per direction. [`create`] makes it and gives
//! the descriptor to hand over; the other process calls [`adopt`] on what it was handed. Each gets
//! its [`Ends`]: a [`Producer`] for what it sends, a [`Consumer`] for what it receives. Moving a
//! record takes no system call.
//!
//! # What holds whatever the other process does
//!
//! It may write anything anywhere in the region at any time, or die. Then records may be lost,
//! damaged or invented, and nothing else happens: no panic, no access outside the region, no
//! endless loop. Three rules make it so:
//!
//! 1. *Positions are private.* Where the next record lies follows from what this process itself
//!    has pushed or popped. Shared memory never says where to look.
//! 2. *What decides is loaded once*, into a private copy, and that copy is checked and used: a
//!    record's length, and how far the consumer has come. A value that no honest peer writes
//!    breaks the ring for good ([`Broken`]).
//! 3. *Contents are copied out* before anybody sees them ([`Consumer::pop`]). Nothing borrows from
//!    shared memory.
//!
//! # Why this is sound
//!
//! Control words are atomics, also where they need no order. Contents are copied by code whose
//! reads the optimiser can neither repeat nor defer (`mapped` says how), so a byte that changes
//! during the copy is one of its values and stays it. Between honest peers the order of
//! publication makes every copy free of races; the module `ring` names the pairs, and the model
//! checker goes through their orders: `RUSTFLAGS="--cfg loom" cargo test -p petasos-shm --lib
//! ring`.
//!
//! [`Pages`] is private memory in pages of a chosen size, for measurements.
//!
//! Boundary rule: knows memory and descriptors; neither sockets nor packets.

#![cfg_attr(loom, allow(dead_code, reason = "only tests make rings under the model checker"))]

#[cfg(not(loom))]
mod mapped;
#[cfg(loom)]
mod modelled;
#[cfg(not(loom))]
mod pages;
#[cfg(not(loom))]
mod region;
mod ring;
#[cfg(not(loom))]
mod rings;
mod shape;
#[cfg(loom)]
mod unmapped;

#[cfg(not(loom))]
use mapped::Memory;
#[cfg(loom)]
use modelled::Memory;

#[cfg(not(loom))]
pub use pages::{HUGE_PAGE_BYTES, Pages, PagesError};
#[cfg(not(loom))]
pub use region::RegionError;
pub use ring::{Broken, Consumer, Ends, Pop, Producer, PushError, Record};
#[cfg(not(loom))]
pub use rings::{adopt, create};
pub use shape::{
    DATA_BYTES_MAX, INLINE_BYTES_MAX, RECORD_BYTES_MAX, RingShape, SLOTS_MAX, ShapeError,
};
#[cfg(loom)]
pub use unmapped::{RegionError, adopt, create};
