//! The plane, packet by packet in memory, and between real endpoints over sockets.

mod endpoints;
mod group;
mod packets;
mod sealed;
mod world;
