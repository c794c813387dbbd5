//! Memory that two processes share, and rings in it, for processes that do not trust each other.
//!
//! A *region* is a sealed memfd with two rings, one per direction. [`create`] makes it and returns
//! the descriptor for the other process, which calls [`adopt`] on it. Each process gets its
//! [`Ends`]: a [`Producer`] for sending and a [`Consumer`] for receiving. Moving a record takes no
//! system call.
//!
//! A *heap* is a range of addresses that an application and the managed service fill with the same
//! sealed memfds: [`OwnedHeap`] at the service, which makes them, and [`AdoptedHeap`] at the
//! application. What these guarantee is in the module `heap`; the rest of this page is about rings.
//!
//! # Guarantees, whatever the other process does
//!
//! The other process may write anything anywhere in the region at any time, or die. Then records
//! may be lost, damaged or invented, but nothing else happens: no panic, no access outside the
//! region, no endless loop. Three rules ensure that:
//!
//! 1. *Positions are private.* Where the next record is follows from what this process itself has
//!    pushed or popped. Shared memory never says where to look.
//! 2. *Values that decide are loaded once*, into a private copy, which is then checked and used: a
//!    record's length, and how far the consumer has come. A value that no honest peer writes breaks
//!    the ring for good ([`Broken`]).
//! 3. *Contents are copied out* before anybody sees them ([`Consumer::pop`]). Nothing borrows from
//!    shared memory.
//!
//! # Why this is sound
//!
//! Control words are atomics, even where they need no ordering. Contents are copied by code whose
//! reads the optimiser can neither repeat nor defer (`copy` says how). So if a byte changes
//! during the copy, the copy has one of its values and keeps it. Between honest peers the order of
//! publication makes every copy free of races. The module `ring` lists the pairs, and the model
//! checker tries all their orders: `RUSTFLAGS="--cfg loom" cargo test -p petasos-shm --lib ring`.
//!
//! [`Pages`] is private memory in pages of a chosen size, for measurements.
//!
//! Boundary rule: knows memory and descriptors; neither sockets nor packets.

#![cfg_attr(loom, allow(dead_code, reason = "only tests make rings under the model checker"))]

#[cfg(not(loom))]
mod copy;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod heap;
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
pub use file::{FileError, SystemError};
#[cfg(not(loom))]
pub use heap::{
    AdoptError, AdoptedHeap, Buffer, Buffers, HeapError, HeapKind, HeapSlice, Loan, Loans, Outside,
    OwnedHeap, ReceivedSlice, STRUCTURE_BYTES_MAX, Sent,
};
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
