//! The statuses of calls that fail in HTTP/2 (the tables of `docs/adr/0011-typed-calls.md`, which
//! are those of gRPC's protocol).

use h2::Reason;
use http::StatusCode;
use petasos_call::{Code, Retry, Status};

/// The status of a response that is not a gRPC response, by its HTTP status.
pub(crate) fn from_http(http: StatusCode) -> Status {
    let code = match http.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    };
    Status::new(code, format!("the response is not gRPC: HTTP status {}", http.as_u16()))
}

/// The status of a call whose stream was reset, or whose connection failed.
pub(crate) fn from_h2(error: &h2::Error) -> Status {
    if error.is_io() {
        return Status::unavailable(format!("the connection failed: {error}"));
    }
    let code = match error.reason() {
        Some(reason) if error.is_reset() => from_reason(reason),
        // A connection that ends also ends its calls; another may carry them.
        _ if error.is_go_away() => Code::Unavailable,
        Some(reason) => from_reason(reason),
        None => Code::Unavailable,
    };
    Status::new(code, error.to_string())
}

/// Whether a call that failed like this may be sent again. A server that goes away names the last
/// stream that it will handle. Those above it fail with this error; the others continue (RFC 9113,
/// 6.8 and 8.7).
pub(crate) fn retry(error: &h2::Error) -> Retry {
    let is_refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    if error.is_remote() && (is_refused || error.is_go_away()) {
        return Retry::Elsewhere;
    }
    Retry::Policy
}

fn from_reason(reason: Reason) -> Code {
    match reason {
        Reason::REFUSED_STREAM => Code::Unavailable,
        Reason::CANCEL => Code::Cancelled,
        Reason::ENHANCE_YOUR_CALM => Code::ResourceExhausted,
        Reason::INADEQUATE_SECURITY => Code::PermissionDenied,
        _ => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_statuses_become_codes() {
        let cases = [
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (429, Code::Unavailable),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
            (200, Code::Unknown),
            (500, Code::Unknown),
        ];
        for (http, code) in cases {
            let http = StatusCode::from_u16(http).expect("a status");
            assert_eq!(from_http(http).code(), code, "{http}");
        }
    }

    #[test]
    fn resets_become_codes() {
        let cases = [
            (Reason::REFUSED_STREAM, Code::Unavailable),
            (Reason::CANCEL, Code::Cancelled),
            (Reason::ENHANCE_YOUR_CALM, Code::ResourceExhausted),
            (Reason::INADEQUATE_SECURITY, Code::PermissionDenied),
            (Reason::PROTOCOL_ERROR, Code::Internal),
            (Reason::NO_ERROR, Code::Internal),
        ];
        for (reason, code) in cases {
            assert_eq!(from_h2(&h2::Error::from(reason)).code(), code, "{reason}");
        }
    }
}
