//! Three versions of one service.

#[allow(missing_docs, dead_code, reason = "each test uses its part")]
#[rustfmt::skip]
pub mod newer;
#[allow(missing_docs, dead_code, reason = "each test uses its part")]
#[rustfmt::skip]
pub mod other;
