//! Cases of unary calls.

use petasos::Msg;

use super::{Outcome, Target, check, equal, text};
use crate::payload;
use crate::service::{Empty, SimpleRequest, TestServiceClient};

const REQUEST_BYTES: usize = 271_828;
const RESPONSE_BYTES: usize = 314_159;
const CONCURRENT: usize = 50;

pub(super) async fn empty_unary(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    client.empty_call(Empty::new()).await.map_err(text)?;
    Ok(())
}

pub(super) async fn large_unary(target: &Target) -> Outcome<()> {
    call_large(&target.client().await?).await
}

pub(super) async fn concurrent_large_unary(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    let calls: Vec<_> = (0..CONCURRENT).map(|_| client.unary_call(large())).collect();
    for call in calls {
        let response = call.await.map_err(text)?;
        equal(response.payload().map(|payload| payload.body().len()), Some(RESPONSE_BYTES))?;
    }
    Ok(())
}

pub(super) async fn rpc_soak(target: &Target) -> Outcome<()> {
    let client = target.client().await?;
    for _ in 0..target.soak_iterations {
        call_large(&client).await?;
    }
    Ok(())
}

pub(super) async fn channel_soak(target: &Target) -> Outcome<()> {
    for _ in 0..target.soak_iterations {
        call_large(&target.client().await?).await?;
    }
    Ok(())
}

async fn call_large(client: &TestServiceClient) -> Outcome<()> {
    let response = client.unary_call(large()).await.map_err(text)?;
    let body = response.payload().map_or(&[][..], |payload| payload.body());
    equal(body.len(), RESPONSE_BYTES)?;
    check(body.iter().all(|byte| *byte == 0), || "the payload is not of zeros".to_owned())
}

fn large() -> Msg<SimpleRequest> {
    let mut request = SimpleRequest::new();
    request.set_response_size(RESPONSE_BYTES as i32);
    request.set_payload(&payload(REQUEST_BYTES));
    request
}
