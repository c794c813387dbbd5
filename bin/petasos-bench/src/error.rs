//! Why a measurement could not be made.

/// Says what to do.
pub type BenchError = Box<dyn std::error::Error>;
