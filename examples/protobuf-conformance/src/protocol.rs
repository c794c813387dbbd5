//! What the runner asks and is answered: the parts of `conformance.proto` that are used here.

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
    /// What the request is a test of: a [`Category`] or another.
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

/// The encodings that a request can ask for, those apart that are not encoded here.
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

/// The categories of tests that are answered in a way of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Category {
    /// None.
    Unspecified = 0,
    /// What JSON has beyond the message is to be skipped.
    JsonIgnoreUnknown = 3,
}

/// What became of a request.
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
    /// The message that was decoded, encoded.
    #[prost(bytes, tag = "3")]
    Protobuf(Vec<u8>),
    /// The same as JSON.
    #[prost(string, tag = "4")]
    Json(String),
    /// Nothing was tried, for this reason.
    #[prost(string, tag = "5")]
    Skipped(String),
    /// The message was decoded, but has no encoding.
    #[prost(string, tag = "6")]
    SerializeError(String),
}
