//! Cases of statuses and metadata.

use petasos::{Code, Msg, Request};

use super::{Outcome, Target, check_echo, echoed, equal, failed, text, with_echo};
use crate::payload;
use crate::service::{
    Empty, SimpleRequest, StreamingOutputCallRequest, UnimplementedServiceClient,
};

const REQUEST_BYTES: usize = 271_828;
const RESPONSE_BYTES: i32 = 314_159;

pub(super) async fn custom_metadata(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    let mut request = SimpleRequest::new();
    request.set_response_size(RESPONSE_BYTES);
    request.set_payload(&payload(REQUEST_BYTES));
    let response = client.unary_call(with_echo(Request::new(request))).await.map_err(text)?;
    check_echo(response.metadata(), Some(response.trailers()))?;

    let opening = client.full_duplex_call().with_all_metadata(echoed());
    let (mut requests, mut responses) = opening.await.map_err(text)?;
    let mut request = StreamingOutputCallRequest::new();
    request.response_parameters_mut().add().set_size(RESPONSE_BYTES);
    request.set_payload(&payload(REQUEST_BYTES));
    requests.send(request).await.map_err(text)?;
    requests.close();
    while responses.message().await.map_err(text)?.is_some() {}
    check_echo(responses.metadata(), responses.trailers())
}

pub(super) async fn status_code_and_message(target: &Target) -> Outcome<()> {
    const MESSAGE: &str = "test status message";
    let client = target.client().await?;
    let status = failed(client.unary_call(asking_for(MESSAGE)).await, Code::Unknown)?;
    equal(status.message(), MESSAGE)?;

    let (mut requests, mut responses) = client.full_duplex_call().await.map_err(text)?;
    let mut request = StreamingOutputCallRequest::new();
    request.response_status_mut().set_code(2).set_message(MESSAGE);
    requests.send(request).await.map_err(text)?;
    requests.close();
    let status = failed(responses.message().await, Code::Unknown)?;
    equal(status.message(), MESSAGE)
}

pub(super) async fn special_status_message(target: &Target) -> Outcome<()> {
    const MESSAGE: &str =
        "\t\ntest with whitespace\r\nand Unicode BMP \u{263a} and non-BMP \u{1f608}\t\n";
    let client = target.client().await?;
    let status = failed(client.unary_call(asking_for(MESSAGE)).await, Code::Unknown)?;
    equal(status.message(), MESSAGE)
}

pub(super) async fn unimplemented_method(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    failed(client.unimplemented_call(Empty::new()).await, Code::Unimplemented).map(drop)
}

pub(super) async fn unimplemented_service(target: &Target) -> Outcome<()> {
    let client = UnimplementedServiceClient::new(target.connect().await?);
    failed(client.unimplemented_call(Empty::new()).await, Code::Unimplemented).map(drop)
}

fn asking_for(message: &str) -> Msg<SimpleRequest> {
    let mut request = SimpleRequest::new();
    request.response_status_mut().set_code(2).set_message(message);
    request
}
