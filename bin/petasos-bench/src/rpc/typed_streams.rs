//! A stream of messages each way, over typed calls: one message at a time, or as many as flow
//! control allows.

use bytes::Bytes;
use petasos::{Loop, Sender, Status, Streaming};

use super::pace::{Count, Meter, Pace};
use super::typed_messages::generated::{BenchClient, Payload};
use super::typed_messages::payload;
use crate::error::BenchError;

/// The sizes of requests and responses.
#[derive(Clone)]
pub struct Shape {
    pub bytes: Bytes,
    pub wanted_bytes: u32,
}

fn text(status: Status) -> String {
    status.to_string()
}

/// Sends each message after the answer to the previous one.
pub async fn ping(client: BenchClient, mut meter: Meter, shape: Shape) -> Result<Count, String> {
    let (mut out, mut answers) = client.flow().await.map_err(text)?;
    while meter.goes_on() {
        let message = payload(shape.wanted_bytes, &shape.bytes, shape.bytes.len());
        out.send(message).await.map_err(text)?;
        let answer = answers.message().await.map_err(text)?.ok_or("the stream has ended")?;
        meter.ended(answer.data().len(), shape.wanted_bytes)?;
    }
    Ok(meter.count())
}

/// Sends as many messages as possible until the turn is over, and waits for all answers.
pub fn flood(
    event_loop: &Loop,
    client: &BenchClient,
    pace: &Pace,
    shape: &Shape,
) -> Result<Count, BenchError> {
    let (out, answers) = event_loop.block_on(async { client.flow().await })?;
    let sent = event_loop.spawn(send(out, pace.meter(), shape.clone()));
    let received = event_loop.spawn(receive(answers, pace.meter(), shape.wanted_bytes));
    let over = "a caller has panicked";
    event_loop.block_on(async {
        sent.await.ok_or(over)??;
        Ok(received.await.ok_or(over)??)
    })
}

async fn send(mut out: Sender<Payload>, mut meter: Meter, shape: Shape) -> Result<(), String> {
    while meter.goes_on() {
        let message = payload(shape.wanted_bytes, &shape.bytes, shape.bytes.len());
        out.send(message).await.map_err(text)?;
        meter.passed();
    }
    Ok(())
}

async fn receive(
    mut answers: Streaming<Payload>,
    mut meter: Meter,
    wanted_bytes: u32,
) -> Result<Count, String> {
    while let Some(answer) = answers.message().await.map_err(text)? {
        meter.ended(answer.data().len(), wanted_bytes)?;
    }
    Ok(meter.count())
}
