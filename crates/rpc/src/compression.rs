//! What callers and handlers say of compression, and are told.
//!
//! A request carries both among its extensions, and so costs nothing where nothing is said or was
//! compressed.

use petasos_call::Codec;

use crate::extensions::Extensions;

/// A caller's: what the call's messages are compressed with, in place of the channel's codec.
#[derive(Clone, Copy, Debug)]
pub struct ChosenCodec(pub Codec);

/// A server's: the request came compressed.
#[derive(Clone, Copy, Debug)]
pub struct CameCompressed;

impl ChosenCodec {
    /// What a call is compressed with: what was chosen for it, or what its channel has.
    pub fn or(extensions: &Extensions, of_channel: Codec) -> Codec {
        extensions.get().map_or(of_channel, |ChosenCodec(codec)| *codec)
    }
}
