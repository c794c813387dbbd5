//! Conversion of metadata and statuses between HTTP fields and Petasos.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use petasos::grpc::base64;
use petasos::{Code, Metadata, Status};

const BINARY: &str = "-bin";

/// Converts a client's metadata to fields. Entries that do not fit are omitted.
pub(crate) fn to_fields(metadata: &Metadata) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (key, value) in metadata.iter() {
        let Ok(name) = HeaderName::from_bytes(key.as_bytes()) else { continue };
        let value = match key.ends_with(BINARY) {
            true => HeaderValue::try_from(base64::encode(value)),
            false => HeaderValue::from_bytes(value),
        };
        let Ok(value) = value else { continue };
        if fields.try_append(name, value).is_err() {
            break; // there are more than a map takes
        }
    }
    fields
}

/// The metadata in a service's fields, without those of HTTP and gRPC.
pub(crate) fn to_metadata(fields: &HeaderMap) -> Metadata {
    let mut metadata = Metadata::new();
    for (name, value) in fields {
        if *name == http::header::CONTENT_TYPE || *name == http::header::TE {
            continue;
        }
        let name = name.as_str();
        // Appending fails for fields that are not metadata: reserved names or invalid characters.
        if !name.ends_with(BINARY) {
            let _ = metadata.append_bytes(name.as_bytes(), value.as_bytes());
        } else if let Some(value) = base64::decode(value.as_bytes()) {
            let _ = metadata.append_bytes(name.as_bytes(), &value);
        }
    }
    metadata
}

/// The status in the fields, with their metadata; `None` if there is no status.
pub(crate) fn status(fields: &HeaderMap) -> Option<Status> {
    tonic::Status::from_header_map(fields).map(of_tonic)
}

/// Converts a status from tonic.
pub(crate) fn of_tonic(status: tonic::Status) -> Status {
    let code = Code::from_number(i32::from(status.code()).unsigned_abs());
    let metadata = to_metadata(&status.metadata().clone().into_headers());
    let text = status.message().to_owned();
    Status::new(code, text).with_details(status.details().to_vec()).with_metadata(metadata)
}

/// Converts the status of a failed stream for tonic.
pub(crate) fn to_tonic(status: &Status) -> tonic::Status {
    let code = tonic::Code::from_i32(status.code().number().into());
    tonic::Status::new(code, status.message())
}

/// Formats `grpc-timeout`: at most eight digits, with the finest unit that fits.
pub(crate) fn timeout(left: Duration) -> HeaderValue {
    const END: u128 = 100_000_000;
    let text = match (left.as_micros(), left.as_millis()) {
        (us, _) if us < END => format!("{us}u"),
        (_, ms) if ms < END => format!("{ms}m"),
        _ => format!("{}S", left.as_secs().min(END as u64 - 1)),
    };
    HeaderValue::try_from(text).expect("digits and a letter are a value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_go_both_ways() {
        let mut sent = Metadata::new();
        sent.append("key", "one").unwrap();
        sent.append("key", "two, three").unwrap();
        sent.append_bin("raw-bin", &[0, 0xff, 3, 4]).unwrap();
        let fields = to_fields(&sent);
        assert_eq!(fields["raw-bin"], "AP8DBA");
        assert_eq!(to_metadata(&fields), sent);
    }

    #[test]
    fn more_metadata_than_a_map_takes_do_not_panic() {
        let mut sent = Metadata::new();
        for number in 0..40_000 {
            sent.append(&format!("key-{number}"), "x").unwrap();
        }
        let fields = to_fields(&sent);
        assert!(fields.len() > 20_000 && fields.len() < 40_000, "{}", fields.len());
    }

    #[test]
    fn statuses_keep_their_parts() {
        let mut metadata = tonic::metadata::MetadataMap::new();
        metadata.insert("why", "because".parse().unwrap());
        let details = bytes::Bytes::from_static(&[8, 5]);
        let status = tonic::Status::with_details_and_metadata(
            tonic::Code::NotFound,
            "not höre",
            details,
            metadata,
        );
        let found = status.into_http::<tonic::body::Body>();
        let found = super::status(found.headers()).expect("it is in the head");
        assert_eq!((found.code(), found.message()), (Code::NotFound, "not höre"));
        assert_eq!(found.details(), [8, 5]);
        assert_eq!(found.metadata().get("why"), Some("because"));
        let back = to_tonic(&found);
        assert_eq!((back.code(), back.message()), (tonic::Code::NotFound, "not höre"));
    }

    #[test]
    fn timeouts_take_the_finest_unit_that_has_room() {
        let cases = [
            (Duration::ZERO, "0u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::MAX, "99999999S"),
        ];
        for (left, text) in cases {
            assert_eq!(timeout(left), text);
        }
    }
}
