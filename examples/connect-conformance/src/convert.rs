//! Conversions between the suite's messages and Petasos' types.

use petasos::grpc::base64;
use petasos::message::{DecodeLimits, Input};
use petasos::{Code, Metadata, MetadataError, Msg, Status};
use prost::Message;

use crate::messages::{Error, Header, RpcStatus};

/// The type URL of an `Any` with this message of the suite.
pub fn type_url(name: &str) -> String {
    format!("type.googleapis.com/connectrpc.conformance.v1.{name}")
}

/// A message of the service, with the content of one of the suite's messages.
///
/// # Errors
/// If they are not the same message.
pub fn typed<T: petasos::message::Message>(bytes: &[u8]) -> Result<Msg<T>, Status> {
    let limits = DecodeLimits::for_input(bytes.len());
    let message = Msg::from_protobuf(Input::Borrowed(bytes), &limits);
    message.map_err(|error| Status::internal(error.to_string()))
}

/// The bytes of a message of the service.
///
/// # Errors
/// If the message is longer or deeper than allowed.
pub fn bytes<T: petasos::message::Message>(message: &T) -> Result<Vec<u8>, Status> {
    let image = petasos::message::to_protobuf(message, 0);
    let image = image.map_err(|error| Status::internal(error.to_string()))?;
    Ok(image.into_buf().as_slice().to_vec())
}

/// Metadata in the suite's form: binary values in base64.
pub fn headers(metadata: &Metadata) -> Vec<Header> {
    let mut headers: Vec<Header> = Vec::new();
    for (key, value) in metadata.iter() {
        let value = match key.ends_with("-bin") {
            true => base64::encode(value),
            false => String::from_utf8_lossy(value).into_owned(),
        };
        match headers.iter_mut().find(|header| header.name == key) {
            Some(header) => header.value.push(value),
            None => headers.push(Header { name: key.to_owned(), value: vec![value] }),
        }
    }
    headers
}

/// Metadata from the suite's form.
///
/// # Errors
/// If the suite asks for invalid metadata.
pub fn metadata(headers: &[Header]) -> Result<Metadata, MetadataError> {
    let mut metadata = Metadata::new();
    for header in headers {
        let key = header.name.to_ascii_lowercase();
        for value in &header.value {
            if key.ends_with("-bin") {
                let bytes = base64::decode(value.as_bytes());
                metadata.append_bin(&key, bytes.as_deref().unwrap_or(value.as_bytes()))?;
            } else {
                metadata.append(&key, value)?;
            }
        }
    }
    Ok(metadata)
}

/// The status that an error of the suite asks for.
pub fn status(error: Error) -> Status {
    let message = error.message.unwrap_or_default();
    let code = Code::from_number(error.code.unsigned_abs());
    let status = Status::new(code, message.clone());
    if error.details.is_empty() {
        return status;
    }
    let rich = RpcStatus { code: error.code, message, details: error.details };
    status.with_details(rich.encode_to_vec())
}

/// A status in the suite's form of errors.
pub fn error(status: &Status) -> Error {
    let rich = RpcStatus::decode(status.details()).unwrap_or_default();
    Error {
        code: i32::from(status.code().number()),
        message: Some(status.message().to_owned()),
        details: rich.details,
    }
}
