//! A whole store as etcd's: revisions, ranges, transactions, leases, watches, compaction.
//!
//! All keys share one revision, so all calls are one part. The revisions in answers leave the
//! search few choices: a write with an answer has its revision, and what anybody has seen of a
//! revision says what the write was ([`facts`]). Watches are not placed: what they have seen, and
//! that there was nothing else, is part of these facts.
//!
//! - `revision` of an answer is that of the store right after the operation. Those of `grant`,
//!   `revoke`, `keep_alive` and `compact` are not looked at.
//! - A lease may end by itself from `ttl_ms` after the call of the last `grant` or `keep_alive`
//!   that was done, by the history's clock; never earlier, and perhaps never.
//! - Writes of one transaction have one revision, and those of an ended lease, too.

pub mod calls;
pub mod facts;
pub mod model;
pub mod ops;
pub mod store;
pub mod watches;

pub use calls::part;
pub use watches::blamed;
