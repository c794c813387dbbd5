//! Endpoints in memory, on clocks of their own.
//!
//! One program, since linking it costs more than running it. Tests that need a process for
//! themselves (allocations are counted by process) are programs beside it.

mod announced_responses;
mod assemblies;
mod calls;
mod external;
mod footprint;
#[path = "../grouped/mod.rs"]
mod grouped;
mod groups;
mod groups_abuse;
mod groups_hostile;
mod groups_long;
mod groups_sealed;
mod hooks;
mod idle_time;
#[path = "../joined/mod.rs"]
mod joined;
mod many_sessions;
mod pacing;
mod prepare;
mod pulls;
mod sealed;
mod session_quota;
mod tails;
mod timers;
