//! A stream of messages each way, over tonic: one message at a time, or as many as flow control
//! allows.

use std::iter;

use tokio::sync::mpsc::unbounded_channel;
pub use tonic::client::Grpc as GrpcClient;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::codegen::tokio_stream::{self, Stream};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use super::pace::{Count, Meter};
use super::tonic_answers::FLOW;
use super::tonic_codec::{Fitting, Payload};

/// The data of one caller.
pub struct Caller {
    pub client: GrpcClient<Channel>,
    pub codec: Fitting,
    pub sent: Payload,
}

async fn open(
    Caller { client, codec, .. }: &mut Caller,
    requests: impl Stream<Item = Payload> + Send + 'static,
) -> Result<Streaming<Payload>, String> {
    client.ready().await.map_err(|error| error.to_string())?;
    let path = PathAndQuery::from_static(FLOW);
    let opened = client.streaming(Request::new(requests), path, *codec).await;
    Ok(opened.map_err(text)?.into_inner())
}

fn text(status: Status) -> String {
    status.to_string()
}

/// Sends each message after the answer to the previous one.
pub async fn ping(mut caller: Caller, mut meter: Meter) -> Result<Count, String> {
    let sent = caller.sent.clone();
    let (out, requests) = unbounded_channel();
    let mut answers = open(&mut caller, UnboundedReceiverStream::new(requests)).await?;
    while meter.goes_on() {
        out.send(sent.clone()).map_err(|_| "the stream has ended")?;
        let answer = answers.message().await.map_err(text)?.ok_or("the stream has ended")?;
        meter.ended(answer.data.len(), sent.wanted_bytes)?;
    }
    Ok(meter.count())
}

/// Sends as many messages as possible until the turn is over, and waits for all answers.
pub async fn flood(
    mut caller: Caller,
    (mut begun, mut answered): (Meter, Meter),
) -> Result<Count, String> {
    let sent = caller.sent.clone();
    let wanted_bytes = sent.wanted_bytes;
    // The connection takes them when its windows allow.
    let requests = iter::from_fn(move || {
        let more = begun.goes_on();
        begun.passed();
        more.then(|| sent.clone())
    });
    let mut answers = open(&mut caller, tokio_stream::iter(requests)).await?;
    while let Some(answer) = answers.message().await.map_err(text)? {
        answered.ended(answer.data.len(), wanted_bytes)?;
    }
    Ok(answered.count())
}
