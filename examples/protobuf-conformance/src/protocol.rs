//! The parts of `conformance.proto` that are used here: the runner's requests and their answers.

/// A payload to be decoded and encoded again.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Request {
    /// What to decode.
    #[prost(oneof = "Payload", tags = "1, 2, 7, 8")]
    pub payload: Option<Payload>,
    /// What to encode: a [`WireFormat`].
    #[prost(int32, tag = "3")]
    pub output_format: i32,
    /// The message's full name.
    #[prost(string, tag = "4")]
    pub message_type: String,
    /// What the request tests: a [`Category`] or another.
    #[prost(int32, tag = "5")]
    pub category: i32,
}

/// An encoded message.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Payload {
    #[prost(bytes, tag = "1")]
    Protobuf(Vec<u8>),
    #[prost(string, tag = "2")]
    Json(String),
    #[prost(string, tag = "7")]
    Jspb(String),
    #[prost(string, tag = "8")]
    Text(String),
}

/// The encodings that a request can ask for, except those that are not supported here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum WireFormat {
    /// None.
    Unspecified = 0,
    /// The binary encoding.
    Protobuf = 1,
    /// The JSON mapping.
    Json = 2,
}

/// The categories of tests that need special treatment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Category {
    /// None.
    Unspecified = 0,
    /// JSON fields that the message does not have must be ignored.
    JsonIgnoreUnknown = 3,
}

/// The answer to a request.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Response {
    /// Never `None`.
    #[prost(oneof = "Answer", tags = "1, 3, 4, 5, 6")]
    pub answer: Option<Answer>,
}

/// The outcome.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Answer {
    /// The payload was refused.
    #[prost(string, tag = "1")]
    ParseError(String),
    /// The decoded message, encoded in protobuf.
    #[prost(bytes, tag = "3")]
    Protobuf(Vec<u8>),
    /// The decoded message, encoded in JSON.
    #[prost(string, tag = "4")]
    Json(String),
    /// The test was skipped, for this reason.
    #[prost(string, tag = "5")]
    Skipped(String),
    /// The message was decoded, but could not be encoded.
    #[prost(string, tag = "6")]
    SerializeError(String),
}
