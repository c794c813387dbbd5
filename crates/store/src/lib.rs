//! Tables of keys and values in memory (`docs/spec/kv.md`, K1 to K16), after MICA (Lim et al., NSDI
//! 2014) as HERD uses it, with FaSST's versions and locks.
//!
//! A table has partitions, each with an owner: the thread that has the [`Partition`]. A partition
//! is buckets of one cache line, whose slots lead into a log. A *cache*'s log is a ring that
//! overwrites what was written the longest ago; a *store*'s is segments that are cleaned, so that
//! deleted room comes back, whatever was written and in which order.
//!
//! Under EREW (exclusive read, exclusive write) only the owner touches a partition; under CREW
//! (concurrent read) any thread reads beside it, with a [`Reader`]. All memory is words of relaxed
//! atomics, so that there is no unsafe code, and loom checks what runs.
//!
//! ```
//! use petasos_store::{Config, Mode, Write};
//!
//! let mut table = Config::for_items(Mode::Store, 1000, 16, 32).partitions()?;
//! let [partition] = &mut table[..] else { unreachable!("it has one") };
//! let key = partition.key(b"colour")?;
//! partition.set(0, &key, &Write { value: b"blue", ..Write::default() })?;
//! assert_eq!(partition.get(0, &key).map(|item| item.to_vec()), Some(b"blue".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Boundary rule: knows no RPCs, starts no threads, reads no clock, contains no `unsafe`.

#![forbid(unsafe_code)]

mod bytes;
mod chain;
mod change;
mod clean;
mod config;
mod hash;
mod item;
mod locks;
mod memory;
mod partition;
mod reader;
#[cfg(all(test, loom))]
mod reader_model;
mod ring;
mod segments;
mod sizes;
mod slot;
mod transaction;

pub use change::{Condition, Refused, Side, UPDATED_BYTES_MAX, Write};
pub use config::{Config, ConfigError};
pub use hash::{KeyHash, partition_of};
pub use item::{Item, KEY_BYTES_MAX, Key, KeyError, VALUE_BYTES_MAX};
pub use locks::{LockError, LockOwner};
pub use partition::{Partition, PartitionStats};
pub use reader::{Busy, ReadItem, Reader};
pub use sizes::Mode;
pub use transaction::Seen;
