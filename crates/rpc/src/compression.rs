//! How callers and handlers choose compression, and learn about it.
//!
//! A request has both in its extensions, so they cost nothing if nothing was chosen or compressed.

use petasos_call::Codec;

use crate::extensions::Extensions;

/// The codec that a caller has chosen for a call's messages, instead of the channel's.
#[derive(Clone, Copy, Debug)]
pub struct ChosenCodec(pub Codec);

/// At a server: the request was compressed.
#[derive(Clone, Copy, Debug)]
pub struct CameCompressed;

impl ChosenCodec {
    /// The codec of a call: the one that was chosen for it, or its channel's.
    pub fn or(extensions: &Extensions, of_channel: Codec) -> Codec {
        extensions.get().map_or(of_channel, |ChosenCodec(codec)| *codec)
    }
}
