//! The messages of `connectrpc.conformance.v1`, as far as gRPC uses them.
//!
//! Written by hand after the suite's .proto files, so that this example needs no compiler for them.
//! The comments are in those files.
#![allow(missing_docs)]

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub struct Any {
    #[prost(string, tag = "1")]
    pub type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Header {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub value: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Error {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, optional, tag = "2")]
    pub message: Option<String>,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UnaryResponseDefinition {
    #[prost(message, repeated, tag = "1")]
    pub response_headers: Vec<Header>,
    #[prost(oneof = "UnaryOutcome", tags = "2, 3")]
    pub response: Option<UnaryOutcome>,
    #[prost(message, repeated, tag = "4")]
    pub response_trailers: Vec<Header>,
    #[prost(uint32, tag = "6")]
    pub response_delay_ms: u32,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum UnaryOutcome {
    #[prost(bytes, tag = "2")]
    ResponseData(Vec<u8>),
    #[prost(message, tag = "3")]
    Error(Error),
}

#[derive(Clone, PartialEq, Message)]
pub struct StreamResponseDefinition {
    #[prost(message, repeated, tag = "1")]
    pub response_headers: Vec<Header>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub response_data: Vec<Vec<u8>>,
    #[prost(uint32, tag = "3")]
    pub response_delay_ms: u32,
    #[prost(message, optional, tag = "4")]
    pub error: Option<Error>,
    #[prost(message, repeated, tag = "5")]
    pub response_trailers: Vec<Header>,
}

/// `UnaryRequest` and `ClientStreamRequest`, as far as a server looks at them.
#[derive(Clone, PartialEq, Message)]
pub struct UnaryRequest {
    #[prost(message, optional, tag = "1")]
    pub response_definition: Option<UnaryResponseDefinition>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServerStreamRequest {
    #[prost(message, optional, tag = "1")]
    pub response_definition: Option<StreamResponseDefinition>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BidiStreamRequest {
    #[prost(message, optional, tag = "1")]
    pub response_definition: Option<StreamResponseDefinition>,
    #[prost(bool, tag = "2")]
    pub full_duplex: bool,
}

/// Every response of the service.
#[derive(Clone, PartialEq, Message)]
pub struct Answer {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<ConformancePayload>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ConformancePayload {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub request_info: Option<RequestInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RequestInfo {
    #[prost(message, repeated, tag = "1")]
    pub request_headers: Vec<Header>,
    #[prost(int64, optional, tag = "2")]
    pub timeout_ms: Option<i64>,
    #[prost(message, repeated, tag = "3")]
    pub requests: Vec<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TlsCreds {
    #[prost(bytes = "vec", tag = "1")]
    pub cert: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServerCompatRequest {
    #[prost(bool, tag = "4")]
    pub use_tls: bool,
    #[prost(bytes = "vec", tag = "5")]
    pub client_tls_cert: Vec<u8>,
    #[prost(uint32, tag = "6")]
    pub message_receive_limit: u32,
    #[prost(message, optional, tag = "7")]
    pub server_creds: Option<TlsCreds>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServerCompatResponse {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(uint32, tag = "2")]
    pub port: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub pem_cert: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum StreamType {
    Unspecified = 0,
    Unary = 1,
    ClientStream = 2,
    ServerStream = 3,
    HalfDuplexBidi = 4,
    FullDuplexBidi = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub enum Compression {
    Unspecified = 0,
    Identity = 1,
    Gzip = 2,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClientCompatRequest {
    #[prost(string, tag = "1")]
    pub test_name: String,
    #[prost(enumeration = "Compression", tag = "5")]
    pub compression: i32,
    #[prost(string, tag = "6")]
    pub host: String,
    #[prost(uint32, tag = "7")]
    pub port: u32,
    #[prost(bytes = "vec", tag = "8")]
    pub server_tls_cert: Vec<u8>,
    #[prost(message, optional, tag = "9")]
    pub client_tls_creds: Option<TlsCreds>,
    #[prost(uint32, tag = "10")]
    pub message_receive_limit: u32,
    #[prost(string, optional, tag = "11")]
    pub service: Option<String>,
    #[prost(string, optional, tag = "12")]
    pub method: Option<String>,
    #[prost(enumeration = "StreamType", tag = "13")]
    pub stream_type: i32,
    #[prost(message, repeated, tag = "15")]
    pub request_headers: Vec<Header>,
    #[prost(message, repeated, tag = "16")]
    pub request_messages: Vec<Any>,
    #[prost(uint32, optional, tag = "17")]
    pub timeout_ms: Option<u32>,
    #[prost(uint32, tag = "18")]
    pub request_delay_ms: u32,
    #[prost(message, optional, tag = "19")]
    pub cancel: Option<Cancel>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Cancel {
    #[prost(oneof = "CancelTiming", tags = "1, 2, 3")]
    pub timing: Option<CancelTiming>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum CancelTiming {
    #[prost(message, tag = "1")]
    BeforeCloseSend(()),
    #[prost(uint32, tag = "2")]
    AfterCloseSendMs(u32),
    #[prost(uint32, tag = "3")]
    AfterNumResponses(u32),
}

#[derive(Clone, PartialEq, Message)]
pub struct ClientCompatResponse {
    #[prost(string, tag = "1")]
    pub test_name: String,
    #[prost(oneof = "ClientResult", tags = "2, 3")]
    pub result: Option<ClientResult>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ClientResult {
    #[prost(message, tag = "2")]
    Response(ClientResponseResult),
    #[prost(message, tag = "3")]
    Error(ClientErrorResult),
}

#[derive(Clone, PartialEq, Message)]
pub struct ClientResponseResult {
    #[prost(message, repeated, tag = "1")]
    pub response_headers: Vec<Header>,
    #[prost(message, repeated, tag = "2")]
    pub payloads: Vec<ConformancePayload>,
    #[prost(message, optional, tag = "3")]
    pub error: Option<Error>,
    #[prost(message, repeated, tag = "4")]
    pub response_trailers: Vec<Header>,
    #[prost(int32, tag = "5")]
    pub num_unsent_requests: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClientErrorResult {
    #[prost(string, tag = "1")]
    pub message: String,
}
