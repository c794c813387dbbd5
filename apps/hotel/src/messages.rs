//! The messages of the `.proto` files as plain structs: what the services' code works with,
//! whatever carries the calls. They are prost's, which tonic needs; beside them is tonic's code.
#![allow(missing_docs, clippy::all, reason = "generated; the .proto files have comments")]

macro_rules! packages {
    ($($package:ident $file:literal)+) => { $(
        pub mod $package {
            include!(concat!(env!("OUT_DIR"), "/tonic/", $file, ".rs"));
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
