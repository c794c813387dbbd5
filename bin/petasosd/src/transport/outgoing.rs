//! Calls to other hosts, as futures: of the loop, or of calls over gRPC.

use std::sync::Arc;

use petasos::untyped::Payload;
use petasos::{Metadata, Opening, Response, Sender, Status, Streaming, Unary};

use super::mail::{Ended, Inbox, Item, Port, Said, along};

/// Both ends of a call with streams.
pub type Both = (Sender<Payload>, Streaming<Payload>);

/// Waits for the response of a unary call.
pub async fn unary(port: Arc<Port>, inbox: Arc<Inbox>, call: Unary<Payload>) {
    if let Some(response) = port.unless_cancelled(call).await {
        inbox.say(Said::Ended(port, Box::new(answered(response))));
    }
}

fn answered(response: Result<Response<Payload>, Status>) -> Ended {
    let response = match response {
        Ok(response) => response,
        Err(status) => return failed(status),
    };
    let (metadata, trailers) = (response.metadata().clone(), response.trailers().clone());
    Ended { result: response.into_message().to_bytes(), metadata, trailers }
}

/// Runs a call with streams.
pub async fn streams(port: Arc<Port>, inbox: Arc<Inbox>, opening: Opening<Both>) {
    let run = async {
        let (sender, mut streaming) = opening.await?;
        let upload = upload(&port, &inbox, sender);
        along(upload, download(&port, &inbox, &mut streaming)).await?;
        Ok(streaming.trailers().cloned().unwrap_or_default())
    };
    if let Some(outcome) = port.unless_cancelled(run).await {
        let ended = match outcome {
            Ok(trailers) => Ended { result: Ok(Vec::new()), metadata: Metadata::new(), trailers },
            Err(status) => failed(status),
        };
        inbox.say(Said::Ended(port.clone(), Box::new(ended)));
    }
}

/// What this host's end says, until it has closed its half.
///
/// # Errors
/// A message cannot be sent, for a reason of its own.
async fn upload(port: &Arc<Port>, inbox: &Inbox, mut to: Sender<Payload>) -> Result<(), Status> {
    while let Item::Message(bytes) = port.next(inbox).await {
        // How the call has ended is heard from the other half.
        if to.send(Payload::from_bytes(&bytes)?).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn download(
    port: &Arc<Port>,
    inbox: &Inbox,
    from: &mut Streaming<Payload>,
) -> Result<(), Status> {
    let head = from.head().await?.clone();
    if !head.is_empty() {
        inbox.say(Said::Head(port.clone(), head));
    }
    while let Some(message) = from.message().await? {
        port.send(inbox, message.to_bytes()?).await;
    }
    Ok(())
}

/// Ends a call of which nothing has left.
pub fn fail(port: Arc<Port>, inbox: &Inbox, status: Status) {
    inbox.say(Said::Ended(port, Box::new(failed(status))));
}

fn failed(status: Status) -> Ended {
    let (metadata, trailers) = Default::default();
    Ended { result: Err(status), metadata, trailers }
}
