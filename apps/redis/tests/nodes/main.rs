//! Real nodes of Redis with real replication behind a real router: what clients of the adapter, and
//! of the library, get.
//!
//! All processes are started by the test that needs them, and killed by their ids.

mod differences;
mod failures;
mod group;
mod hostile;
mod redis;
mod redis_tools;
mod routing;
