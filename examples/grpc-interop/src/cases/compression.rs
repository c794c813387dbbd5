//! Cases of compression, which is chosen for each message.
//!
//! A server that does not check whether requests were compressed fails the client's cases, because
//! it must refuse the first call, a probe. In the other direction nothing has to be requested: each
//! client accepts gzip.

use petasos::{Code, Codec, Msg, Request};

use super::{Outcome, Target, equal, failed, text};
use crate::payload;
use crate::service::{
    SimpleRequest, StreamingInputCallRequest, StreamingOutputCallRequest, TestServiceClient,
};

const REQUEST_BYTES: usize = 271_828;
const RESPONSE_BYTES: usize = 314_159;
/// Requests of a stream, and whether they are compressed.
const REQUESTS: [(usize, bool); 2] = [(27_182, true), (45_904, false)];
const RESPONSES: [(usize, bool); 2] = [(31_415, true), (92_653, false)];

pub(super) async fn client_compressed_unary(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    let probe = Request::new(expecting(true)).with_codec(Codec::IDENTITY);
    failed(client.unary_call(probe).await, Code::InvalidArgument)?;
    for (compressed, codec) in [(true, Codec::GZIP), (false, Codec::IDENTITY)] {
        let request = Request::new(expecting(compressed)).with_codec(codec);
        let response = client.unary_call(request).await.map_err(text)?;
        equal(response.payload().map(|payload| payload.body().len()), Some(RESPONSE_BYTES))?;
    }
    Ok(())
}

pub(super) async fn server_compressed_unary(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    for compressed in [true, false] {
        let mut request = large();
        request.response_compressed_mut().set_value(compressed);
        let response = client.unary_call(request).await.map_err(text)?;
        equal((response.was_compressed(), compressed), (compressed, compressed))?;
        equal(response.payload().map(|payload| payload.body().len()), Some(RESPONSE_BYTES))?;
    }
    Ok(())
}

pub(super) async fn client_compressed_streaming(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    probe_stream(&client).await?;
    let mut upload = client.streaming_input_call().with_codec(Codec::GZIP);
    for (bytes, compressed) in REQUESTS {
        upload.compress(compressed).await.map_err(text)?;
        upload.send(input(bytes, compressed)).await.map_err(text)?;
    }
    let response = upload.finish().await.map_err(text)?;
    equal(response.aggregated_payload_size(), 73_086)
}

/// A call with gzip whose message is not compressed.
async fn probe_stream(client: &TestServiceClient) -> Outcome<()> {
    let mut upload = client.streaming_input_call().with_codec(Codec::GZIP);
    upload.compress(false).await.map_err(text)?;
    // The server may have answered already; the end of the call shows that.
    let _ = upload.send(input(REQUESTS[0].0, true)).await;
    failed(upload.finish().await, Code::InvalidArgument).map(drop)
}

pub(super) async fn server_compressed_streaming(target: &Target) -> Outcome<()> {
    // The responses may come in either order.
    for responses in [RESPONSES, [RESPONSES[1], RESPONSES[0]]] {
        run_server_compressed_streaming(target, &responses).await?;
    }
    Ok(())
}

async fn run_server_compressed_streaming(target: &Target, wanted: &[(usize, bool)]) -> Outcome<()> {
    let client = target.client().await?;
    let mut request = StreamingOutputCallRequest::new();
    for (bytes, compressed) in wanted {
        let mut edit = request.edit();
        let mut all = edit.response_parameters_mut();
        let mut parameters = all.add();
        parameters.set_size(*bytes as i32);
        parameters.compressed_mut().set_value(*compressed);
    }
    let mut responses = client.streaming_output_call(request).await.map_err(text)?;
    for (bytes, compressed) in wanted {
        let response = responses.message().await.map_err(text)?;
        let response = response.ok_or("a response is missing")?;
        equal(response.payload().map(|payload| payload.body().len()), Some(*bytes))?;
        equal((responses.was_compressed(), *bytes), (*compressed, *bytes))?;
    }
    equal(responses.message().await.map_err(text)?.is_none(), true)
}

fn large() -> Msg<SimpleRequest> {
    let mut request = SimpleRequest::new();
    request.set_response_size(RESPONSE_BYTES as i32);
    request.set_payload(&payload(REQUEST_BYTES));
    request
}

fn expecting(compressed: bool) -> Msg<SimpleRequest> {
    let mut request = large();
    request.expect_compressed_mut().set_value(compressed);
    request
}

fn input(bytes: usize, expected: bool) -> Msg<StreamingInputCallRequest> {
    let mut request = StreamingInputCallRequest::new();
    request.expect_compressed_mut().set_value(expected);
    request.set_payload(&payload(bytes));
    request
}
