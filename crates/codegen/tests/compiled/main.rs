//! The golden files, compiled and used, in a program that allows neither warnings nor `unsafe`.

#![deny(warnings)]
#![forbid(unsafe_code)]

mod calls;
mod kinds;
mod literals;
mod names;
mod notes;
mod owned;
mod protos;
mod services;
mod setters;
