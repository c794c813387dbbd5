//! Groups of members that are threads of the test, and clients over loopback.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod group;
mod histories;
mod hostile;
mod members;
mod table;
