//! Tests of the router's core.

mod members;
mod policies;
mod properties;
mod requests;
mod support;
mod world;
