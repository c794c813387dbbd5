//! Workers over HTTP/1.1, for proxies: `GET /search?q=QUERY&limit=HITS` is answered as JSON.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use petasos_web::Limits;
use serde::Serialize;

use crate::answer::Refusal;
use crate::error::Failed;
use crate::worker::Worker;

/// What a worker's callers may take. Proxies keep many connections.
const LIMITS: Limits = Limits {
    connections_max: 4096,
    head_bytes_max: 16 << 10,
    patience: Duration::from_secs(120),
    age_max: Duration::from_secs(24 * 3600),
    keep_alive: true,
};

/// What a refusal looks like.
#[derive(Serialize)]
struct Told {
    error: String,
}

/// Serves from a thread of its own, as long as the process lives. Returns where.
///
/// # Errors
/// If the address cannot be had.
pub fn start(worker: Worker, listen: SocketAddr) -> Result<SocketAddr, Failed> {
    let listener = TcpListener::bind(listen)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|error| Failed(format!("cannot listen at {listen}: {error}")))?;
    let address = listener.local_addr().map_err(|error| Failed(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failed(format!("cannot serve: {error}")))?;
    let serve = move || {
        petasos_pacing::wake_up_in_time();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener);
            let listener = listener.expect("the runtime has its own epoll, which takes sockets");
            let answer = move |request| answer(worker.clone(), request);
            petasos_web::serve(listener, None, LIMITS, answer).await;
        });
    };
    let thread = std::thread::Builder::new().name("http".to_owned()).spawn(serve);
    thread.map_err(|error| Failed(format!("cannot start a thread: {error}")))?;
    Ok(address)
}

async fn answer(worker: Worker, request: Request<()>) -> Response<Bytes> {
    let told = |status, error: &str| json(status, &Told { error: error.to_owned() });
    if request.method() != Method::GET {
        return told(StatusCode::METHOD_NOT_ALLOWED, "GET");
    }
    if request.uri().path() != "/search" {
        return told(StatusCode::NOT_FOUND, "there is /search?q=QUERY&limit=HITS");
    }
    let query = request.uri().query().unwrap_or_default();
    let limit = match parameter(query, "limit").map(|limit| limit.parse()).unwrap_or(Ok(0)) {
        Ok(limit) => limit,
        Err(_) => return told(StatusCode::BAD_REQUEST, "`limit` is no number"),
    };
    let text = parameter(query, "q").unwrap_or_default();
    match worker.find(&text, limit).await {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(refusal) => told(status(&refusal), &refusal.to_string()),
    }
}

fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Query(_) => StatusCode::BAD_REQUEST,
        Refusal::NotRecorded => StatusCode::NOT_FOUND,
        Refusal::Engine(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn json(status: StatusCode, body: &impl Serialize) -> Response<Bytes> {
    let body = serde_json::to_vec(body).expect("texts and numbers can be JSON");
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The first parameter of a name. What is no UTF-8 is replaced.
fn parameter(query: &str, name: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
    let value = values.next()?.replace('+', " ");
    Some(percent_decode_str(&value).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = "limit=5&q=%2Bqueen+%22bee%22&q=ant&x";
        assert_eq!(parameter(query, "q").as_deref(), Some("+queen \"bee\""));
        assert_eq!(parameter(query, "limit").as_deref(), Some("5"));
        assert_eq!((parameter(query, "x"), parameter("", "q")), (None, None));
        assert_eq!(parameter("q=%ff%", "q").as_deref(), Some("\u{fffd}%"));
    }
}
