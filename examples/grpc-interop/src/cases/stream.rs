//! Cases of streams.

use std::time::Duration;

use petasos::{Code, Msg, Streaming};

use super::{Outcome, Target, check, equal, failed, text};
use crate::payload;
use crate::service::{
    StreamingInputCallRequest, StreamingOutputCallRequest, StreamingOutputCallResponse,
};

const REQUESTS: [usize; 4] = [27_182, 8, 1_828, 45_904];
const RESPONSES: [usize; 4] = [31_415, 9, 2_653, 58_979];

pub(super) async fn client_streaming(target: &Target) -> Outcome<()> {
    let mut upload = target.client().await?.streaming_input_call();
    for bytes in REQUESTS {
        upload.send(input(bytes)).await.map_err(text)?;
    }
    let response = upload.finish().await.map_err(text)?;
    equal(response.aggregated_payload_size(), 74_922)
}

pub(super) async fn server_streaming(target: &Target) -> Outcome<()> {
    let mut request = StreamingOutputCallRequest::new();
    for bytes in RESPONSES {
        request.response_parameters_mut().add().set_size(bytes as i32);
    }
    let client = target.client().await?;
    let mut responses = client.streaming_output_call(request).await.map_err(text)?;
    for bytes in RESPONSES {
        expect(&mut responses, bytes).await?;
    }
    expect_end(&mut responses).await
}

pub(super) async fn ping_pong(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    let (mut requests, mut responses) = client.full_duplex_call().await.map_err(text)?;
    for (request, response) in REQUESTS.into_iter().zip(RESPONSES) {
        requests.send(output(request, response)).await.map_err(text)?;
        expect(&mut responses, response).await?;
    }
    requests.close();
    expect_end(&mut responses).await
}

pub(super) async fn empty_stream(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    let (requests, mut responses) = client.full_duplex_call().await.map_err(text)?;
    requests.close();
    expect_end(&mut responses).await
}

/// Dropping a call cancels it: nothing more of it can be observed here, and the channel remains
/// usable.
pub(super) async fn cancel_after_begin(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    let mut upload = client.streaming_input_call();
    upload.send(input(REQUESTS[0])).await.map_err(text)?;
    drop(upload);
    client.empty_call(crate::service::Empty::new()).await.map_err(text)?;
    Ok(())
}

pub(super) async fn cancel_after_first_response(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    let (mut requests, mut responses) = client.full_duplex_call().await.map_err(text)?;
    requests.send(output(REQUESTS[0], RESPONSES[0])).await.map_err(text)?;
    expect(&mut responses, RESPONSES[0]).await?;
    drop(responses);
    failed(requests.send(output(REQUESTS[1], RESPONSES[1])).await, Code::Cancelled).map(drop)
}

pub(super) async fn timeout_on_sleeping_server(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    let opening = client.full_duplex_call().with_timeout(Duration::from_millis(1));
    let (mut requests, mut responses) = match opening.await {
        Ok(both) => both,
        Err(status) => return failed::<()>(Err(status), Code::DeadlineExceeded).map(drop),
    };
    // The call may have ended already; the responses show that.
    let _ = requests.send(output(REQUESTS[0], 0)).await;
    failed(responses.message().await, Code::DeadlineExceeded).map(drop)
}

async fn expect(
    responses: &mut Streaming<StreamingOutputCallResponse>,
    bytes: usize,
) -> Outcome<()> {
    let response = responses.message().await.map_err(text)?;
    let response = response.ok_or("a response is missing")?;
    equal(response.payload().map(|payload| payload.body().len()), Some(bytes))
}

async fn expect_end(responses: &mut Streaming<StreamingOutputCallResponse>) -> Outcome<()> {
    let more = responses.message().await.map_err(text)?;
    check(more.is_none(), || "there is a response too many".to_owned())
}

fn input(bytes: usize) -> Msg<StreamingInputCallRequest> {
    let mut request = StreamingInputCallRequest::new();
    request.set_payload(&payload(bytes));
    request
}

/// A request of a given size that asks for a response of a given size.
fn output(bytes: usize, response: usize) -> Msg<StreamingOutputCallRequest> {
    let mut request = StreamingOutputCallRequest::new();
    if response > 0 {
        request.response_parameters_mut().add().set_size(response as i32);
    }
    request.set_payload(&payload(bytes));
    request
}
