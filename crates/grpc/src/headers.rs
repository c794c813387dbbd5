//! Metadata, statuses and gRPC's other header fields.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TE};
use petasos_call::{Code, Metadata, Status};

use crate::{base64, percent};

pub(crate) const CONTENT: HeaderValue = HeaderValue::from_static("application/grpc");

pub(crate) const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
pub(crate) const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
pub(crate) const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");

const BINARY: &str = "-bin";

/// Longest message and details of a status that are sent, in encoded bytes. A peer refuses a header
/// list that is too long, and would then know nothing of the status.
const MESSAGE_BYTES_MAX: usize = 4096;
const DETAILS_BYTES_MAX: usize = 8192;

/// The content type that the peer declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Protobuf, in gRPC's frames.
    Grpc,
    /// Something else, in gRPC's frames.
    OtherCodec,
    /// Not gRPC.
    Other,
}

pub(crate) fn content(headers: &HeaderMap) -> Content {
    let value = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let Some(rest) = value.strip_prefix(b"application/grpc") else { return Content::Other };
    match rest {
        [] | [b';', ..] | b"+proto" => Content::Grpc,
        [b'+', codec @ ..] if codec.starts_with(b"proto;") => Content::Grpc,
        [b'+', ..] => Content::OtherCodec,
        _ => Content::Other,
    }
}

/// The metadata among a peer's header fields. Fields of HTTP and of gRPC are left out. So are
/// fields that cannot be metadata: an intermediary may have added them, and the call does not need
/// them.
pub(crate) fn metadata(headers: &HeaderMap) -> Metadata {
    let mut metadata = Metadata::new();
    for (name, value) in headers {
        if *name == CONTENT_TYPE || *name == TE {
            continue;
        }
        append(&mut metadata, name.as_str(), value.as_bytes());
    }
    metadata
}

fn append(metadata: &mut Metadata, name: &str, value: &[u8]) {
    if !name.ends_with(BINARY) {
        // Fails for fields that cannot be metadata: a reserved name, other characters.
        let _ = metadata.append_bytes(name.as_bytes(), value);
        return;
    }
    // One field may contain several values, separated by commas, which base64 does not use.
    for value in value.split(|byte| *byte == b',') {
        if let Some(value) = base64::decode(value.trim_ascii()) {
            let _ = metadata.append_bytes(name.as_bytes(), &value);
        }
    }
}

/// Adds fields for metadata. Leaves out those that HTTP forbids, and those that other functions
/// here set.
pub(crate) fn put_metadata(headers: &mut HeaderMap, metadata: &Metadata) {
    headers.reserve(metadata.len());
    for (key, value) in metadata.iter() {
        let Ok(name) = HeaderName::from_bytes(key.as_bytes()) else { continue };
        if is_forbidden(&name) {
            continue;
        }
        let value = if key.ends_with(BINARY) {
            HeaderValue::from_maybe_shared(bytes::Bytes::from(base64::encode(value)))
        } else {
            HeaderValue::from_bytes(value)
        };
        headers.append(name, value.expect("metadata and base64 are printable ASCII"));
    }
}

/// Connection-specific fields, which HTTP/2 forbids (RFC 9113, 8.2.2), and gRPC's own fields.
fn is_forbidden(name: &HeaderName) -> bool {
    const CONNECTION: [&str; 8] = [
        "connection",
        "content-length",
        "content-type",
        "keep-alive",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    CONNECTION.contains(&name.as_str())
}

/// Adds the fields of a status, with its metadata and the trailing metadata.
pub(crate) fn put_status(headers: &mut HeaderMap, status: &Status, trailers: &Metadata) {
    put_metadata(headers, status.metadata());
    put_metadata(headers, trailers);
    headers.insert(STATUS, number(status.code()));
    if !status.message().is_empty() {
        let mut text = percent::encode(status.message());
        percent::truncate(&mut text, MESSAGE_BYTES_MAX);
        headers.insert(MESSAGE, HeaderValue::try_from(text).expect("it is printable ASCII"));
    }
    if !status.details().is_empty() && status.details().len() <= DETAILS_BYTES_MAX / 4 * 3 {
        let details = base64::encode(status.details());
        headers.insert(DETAILS, HeaderValue::try_from(details).expect("it is printable ASCII"));
    }
}

/// A code as a field's value.
fn number(code: Code) -> HeaderValue {
    const NUMBERS: [&str; 17] = [
        "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
    ];
    HeaderValue::from_static(NUMBERS[usize::from(code.number())])
}

/// The status in header fields, with all metadata among them; `None` if there is no status.
pub(crate) fn status(headers: &HeaderMap) -> Option<Status> {
    let number = std::str::from_utf8(headers.get(STATUS)?.as_bytes()).ok();
    let code =
        number.and_then(|number| number.parse().ok()).map_or(Code::Unknown, Code::from_number);
    let message = headers.get(MESSAGE).map(|value| percent::decode(value.as_bytes()));
    let details = headers.get(DETAILS).and_then(|value| base64::decode(value.as_bytes()));
    let status = Status::new(code, message.unwrap_or_default());
    Some(status.with_details(details.unwrap_or_default()).with_metadata(metadata(headers)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            let name = HeaderName::try_from(*name).expect("a name");
            headers.append(name, HeaderValue::try_from(*value).expect("a value"));
        }
        headers
    }

    #[test]
    fn metadata_go_both_ways() {
        let mut sent = Metadata::new();
        sent.append("key", "one").expect("valid");
        sent.append("key", "two, three").expect("valid");
        sent.append_bin("raw-bin", &[0, 0xff, 3, 4]).expect("valid");
        let mut headers = HeaderMap::new();
        put_metadata(&mut headers, &sent);
        assert_eq!(headers["raw-bin"], "AP8DBA");
        assert_eq!(metadata(&headers), sent);
    }

    #[test]
    fn binary_values_may_be_padded_and_share_a_field() {
        let found = metadata(&fields(&[("raw-bin", "AA==, AQ,!,AgM="), ("raw-bin", "BA")]));
        let values: Vec<_> = found.get_all_bin("raw-bin").collect();
        assert_eq!(values, [&[0][..], &[1], &[2, 3], &[4]]);
    }

    #[test]
    fn fields_of_http_and_grpc_are_no_metadata() {
        let list = [("te", "trailers"), ("content-type", "a"), ("grpc-x", "b"), ("a!", "c")];
        assert!(metadata(&fields(&list)).is_empty());
        let mut sent = Metadata::new();
        for key in ["te", "connection", "content-length", "content-type"] {
            sent.append(key, "x").expect("valid");
        }
        let mut headers = HeaderMap::new();
        put_metadata(&mut headers, &sent);
        assert!(headers.is_empty());
    }

    #[test]
    fn statuses_go_both_ways() {
        let mut trailers = Metadata::new();
        trailers.append("a", "b").expect("valid");
        let sent = Status::not_found("not höre").with_details(vec![8, 5]);
        let mut headers = HeaderMap::new();
        put_status(&mut headers, &sent, &trailers);
        assert_eq!(headers["grpc-status"], "5");
        assert_eq!(headers["grpc-message"], "not h%C3%B6re");
        assert_eq!(status(&headers), Some(sent.with_metadata(trailers)));
    }

    #[test]
    fn all_codes_have_their_numbers() {
        for code in 0..=16 {
            assert_eq!(number(Code::from_number(code)), code.to_string());
        }
    }

    #[test]
    fn strange_statuses_are_unknown_and_missing_ones_are_none() {
        for value in ["17", "-1", "", "99999999999", "x"] {
            let found = status(&fields(&[("grpc-status", value)])).expect("there is one");
            assert_eq!(found.code(), Code::Unknown, "{value}");
        }
        assert_eq!(status(&fields(&[("grpc-message", "no")])), None);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut headers = HeaderMap::new();
        put_status(&mut headers, &Status::internal("ß".repeat(4000)), &Metadata::new());
        let found = status(&headers).expect("there is one");
        assert_eq!(found.message(), "ß".repeat(MESSAGE_BYTES_MAX / 6));
    }

    #[test]
    fn contents_are_told_apart() {
        for value in ["application/grpc", "application/grpc+proto", "application/grpc;a=b"] {
            assert_eq!(content(&fields(&[("content-type", value)])), Content::Grpc, "{value}");
        }
        let other = fields(&[("content-type", "application/grpc+json")]);
        assert_eq!(content(&other), Content::OtherCodec);
        for value in ["application/grpc-web", "text/html", ""] {
            assert_eq!(content(&fields(&[("content-type", value)])), Content::Other, "{value}");
        }
        assert_eq!(content(&HeaderMap::new()), Content::Other);
    }
}
