//! Fuzz target: see `petasos_fuzz::memcached`.
#![no_main]

petasos_fuzz::target!(memcached);
