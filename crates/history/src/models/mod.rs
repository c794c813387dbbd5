//! The models: what each takes from a history, and how its service behaves.

pub mod counter;
pub mod etcd;
pub mod parts;
pub mod register;
pub mod sequence;
mod value;
