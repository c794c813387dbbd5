//! Tests of the router's core.

mod members;
mod policies;
mod properties;
mod requests;
mod settings;
mod shared;
mod support;
mod world;
