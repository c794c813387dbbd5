//! The code of Petasos' generator.
#![allow(missing_docs, reason = "the .proto files have comments")]

macro_rules! packages {
    ($($package:ident $name:literal)+) => { $(
        pub mod $package {
            petasos::include_proto!($name);
        }
    )+ };
}

packages! {
    geo "hotel.geo"
    profile "hotel.profile"
    rate "hotel.rate"
    recommendation "hotel.recommendation"
    reservation "hotel.reservation"
    search "hotel.search"
    user "hotel.user"
}
