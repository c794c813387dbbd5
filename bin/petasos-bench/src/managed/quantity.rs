//! What a figure compares.

/// The quantity of a figure's rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Median round-trip time in microseconds: less is better.
    LatencyUs,
    /// Calls per second.
    OpsPerS,
    /// Gigabits of request payload per second.
    GbitPerS,
    /// Peak memory of all processes in bytes: less is better.
    MemoryBytes,
}

impl Quantity {
    /// The name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::LatencyUs => "p50_us",
            Quantity::OpsPerS => "ops_per_s",
            Quantity::GbitPerS => "gbit_per_s",
            Quantity::MemoryBytes => "peak_memory_bytes",
        }
    }

    /// Whether the smaller value is the better one.
    pub fn less_is_better(self) -> bool {
        matches!(self, Quantity::LatencyUs | Quantity::MemoryBytes)
    }
}
