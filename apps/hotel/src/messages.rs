//! The messages of the `.proto` files as plain structs: what the services' code works with,
//! whatever carries the calls. They are prost's, which tonic needs; beside them is tonic's code.
#![allow(missing_docs, clippy::all, reason = "generated; the .proto files have comments")]

use crate::packages::every_package;

macro_rules! declared {
    ($($package:ident $name:literal)+) => { $(
        pub mod $package {
            include!(concat!(env!("OUT_DIR"), "/tonic/", $name, ".rs"));
        }
    )+ };
}

every_package!(declared);
