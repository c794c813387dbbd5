//! tonic's message type `petasos.bench.Payload`, and a codec whose buffers fit it.

use bytes::Bytes;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;

use super::args::RpcArgs;

/// `petasos.bench.Payload` of `protos/bench.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Payload {
    #[prost(uint32, tag = "1")]
    pub wanted_bytes: u32,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: Bytes,
}

/// The most bytes of a message besides its payload: gRPC's header, two tags, and two numbers.
const MESSAGE_HEAD_BYTES: usize = 5 + 2 + 5 + 5;
/// The length up to which messages are sent together: tonic's value.
const SENT_TOGETHER_BYTES: usize = 32 << 10;

/// tonic's default codec allocates 8 KiB per message or stream of messages. That is too much for
/// short messages, where small allocations are faster, and too little for long ones, which are
/// copied again as the buffer grows.
#[derive(Clone, Copy, Debug)]
pub struct Fitting {
    buffer_bytes: usize,
}

impl Fitting {
    pub fn new(args: &RpcArgs) -> Fitting {
        Fitting { buffer_bytes: args.payload_bytes() as usize + MESSAGE_HEAD_BYTES }
    }

    fn settings(self) -> BufferSettings {
        BufferSettings::new(self.buffer_bytes, SENT_TOGETHER_BYTES)
    }
}

type Plain = ProstCodec<Payload, Payload>;

impl Codec for Fitting {
    type Encode = Payload;
    type Decode = Payload;
    type Encoder = <Plain as Codec>::Encoder;
    type Decoder = <Plain as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        Plain::raw_encoder(self.settings())
    }

    fn decoder(&mut self) -> Self::Decoder {
        Plain::raw_decoder(self.settings())
    }
}
