//! The plane, packet by packet in memory, and between real endpoints over sockets.

mod endpoints;
mod group;
mod operate;
mod packets;
mod sealed;
mod world;
