//! Turns measurements into numbers that people and tools can read: latency histograms, ratios of
//! alternating turns, a description of the machine, terminal tables, a progress line, JSON, and a
//! self-contained HTML report.
//!
//! Boundary rule: knows nothing about RPC, sockets or experiments. It measures nothing; callers
//! pass values with their units.

mod escape;
mod figure;
mod file;
mod format;
mod histogram;
mod html;
mod machine;
mod pairs;
mod progress;
mod result;
mod table;
mod wrap;

pub use figure::{Axis, Bar, Figure, Series, Tone, sheet};
pub use file::{WriteError, write_atomically};
pub use format::{duration_us, significant, with_si_prefix};
pub use histogram::{Histogram, Latency};
pub use html::Report;
pub use machine::Machine;
pub use pairs::{PairError, PairRecord, Pairs, Quantity, Ratio, median};
pub use progress::Progress;
pub use result::{ExperimentResult, Measured};
pub use table::{Column, Style, Table, terminal_width};
