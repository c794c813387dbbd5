//! The code of Petasos' generator.
#![allow(missing_docs, reason = "the .proto files have comments")]

use crate::packages::every_package;

macro_rules! declared {
    ($($package:ident $name:literal)+) => { $(
        pub mod $package {
            petasos::include_proto!($name);
        }
    )+ };
}

every_package!(declared);
