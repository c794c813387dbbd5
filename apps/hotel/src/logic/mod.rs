//! What the services do, over any store, cache and kind of call.

mod distance;
mod geo;
mod hotels;
mod profile;
mod rate;
mod recommendation;
mod reservation;
mod search;
#[cfg(test)]
mod tests;
mod user;

pub use geo::GeoIndex;
pub use profile::Profiles;
pub use rate::Rates;
pub use recommendation::Recommendations;
pub use reservation::Reservations;
pub use search::Searches;
pub use user::Users;
