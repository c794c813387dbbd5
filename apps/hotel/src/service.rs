//! The services, by name.

use clap::ValueEnum;

/// A service that others call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Service {
    /// Hotels near a place that have rates
    Search,
    /// Where hotels are
    Geo,
    /// What rooms cost
    Rate,
    /// What hotels are
    Profile,
    /// The best hotels
    Recommendation,
    /// Which rooms are taken
    Reservation,
    /// Who guests are
    User,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 7] = [
        Service::Search,
        Service::Geo,
        Service::Rate,
        Service::Profile,
        Service::Recommendation,
        Service::Reservation,
        Service::User,
    ];

    /// The name on command lines and in timings.
    pub const fn name(self) -> &'static str {
        match self {
            Service::Search => "search",
            Service::Geo => "geo",
            Service::Rate => "rate",
            Service::Profile => "profile",
            Service::Recommendation => "recommendation",
            Service::Reservation => "reservation",
            Service::User => "user",
        }
    }

    /// The service of this name.
    pub fn named(name: &str) -> Option<Service> {
        Service::ALL.into_iter().find(|service| service.name() == name)
    }

    /// The services that it calls.
    pub const fn calls(self) -> &'static [Service] {
        match self {
            Service::Search => &[Service::Geo, Service::Rate],
            _ => &[],
        }
    }

    /// Whether it keeps what it reads in the cache.
    pub const fn has_cache(self) -> bool {
        matches!(self, Service::Rate | Service::Profile | Service::Reservation)
    }

    /// Whether it has data.
    pub const fn has_store(self) -> bool {
        !matches!(self, Service::Search)
    }
}

/// The services that the frontend calls.
pub const FRONTEND_CALLS: [Service; 5] = [
    Service::Search,
    Service::Profile,
    Service::Recommendation,
    Service::Reservation,
    Service::User,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for service in Service::ALL {
            let value = service.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), service.name());
            assert_eq!(Service::named(service.name()), Some(service));
        }
        assert_eq!(Service::named("frontend"), None);
    }
}
