//! Tests of all parts together: what an engine may do, and what a change may not.

mod absent;
mod aside;
mod changes;
mod counts;
mod fields;
mod rules;
mod support;
