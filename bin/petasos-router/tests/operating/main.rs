//! Operators of a router that is a process, while workers and clients call.

#[path = "../../../../crates/petasos/tests/greeter/generated.rs"]
mod generated;
#[path = "../support/mod.rs"]
mod support;

mod changes;
mod hostile;
mod operator;
mod reload;
mod scraped;
