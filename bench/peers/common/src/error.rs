//! Why a peer ends early.

/// It is printed to standard error.
pub type Error = Box<dyn std::error::Error>;
