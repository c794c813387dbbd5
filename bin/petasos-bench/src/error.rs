//! Errors of measurements.

/// An error whose text says what to do.
pub type BenchError = Box<dyn std::error::Error>;
