//! What servers and single loops need to join groups of workers: settings, the names of routers,
//! and the errors of starting. It knows neither of the two.

mod error;
mod join;
mod names;

pub use error::StartError;
pub(crate) use error::find;
pub use join::Join;
pub(crate) use names::{Named, Names};
