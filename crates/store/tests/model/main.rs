//! Long random runs of a partition beside a map that does the same.

mod cache;
mod oracle;
mod store;
