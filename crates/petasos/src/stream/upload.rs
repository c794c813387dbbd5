//! Client-streaming calls: a stream of requests, and one response.

use core::fmt;
use core::time::Duration;

use petasos_call::{Codec, Metadata, MetadataError, Status, TraceContext};
use petasos_message::{Message, Msg};
use petasos_rpc::request::{More, Response, ResponseParts as _, all_in_status};

use super::{Opening, Sender, Streaming};
use crate::caller::ServiceClient;

/// A client-streaming call. It starts with the first [`Upload::send`], or with [`Upload::finish`].
/// Dropping it before `finish` cancels the call.
#[must_use = "a call does not begin before something is sent"]
pub struct Upload<Q, P> {
    stage: Stage<Q, P>,
}

enum Stage<Q, P> {
    Opening(Opening<(Sender<Q>, Streaming<P>)>),
    /// Dropped in this order, so that a cancelled upload does not look finished.
    Open(Streaming<P>, Sender<Q>),
    Failed(Status),
}

impl<Q: Message, P: Message> Upload<Q, P> {
    pub(crate) fn new(opening: Opening<(Sender<Q>, Streaming<P>)>) -> Upload<Q, P> {
        Upload { stage: Stage::Opening(opening) }
    }

    /// Sets the call's timeout; see [`Opening::with_timeout`].
    pub fn with_timeout(self, timeout: Duration) -> Upload<Q, P> {
        match self.stage {
            Stage::Opening(opening) => Upload::new(opening.with_timeout(timeout)),
            stage => Upload { stage },
        }
    }

    /// Adds an entry to the metadata; see [`Opening::with_metadata`].
    ///
    /// # Errors
    /// If the key or the value is invalid; see [`MetadataError`].
    pub fn with_metadata(self, key: &str, value: &str) -> Result<Upload<Q, P>, MetadataError> {
        match self.stage {
            Stage::Opening(opening) => Ok(Upload::new(opening.with_metadata(key, value)?)),
            stage => Ok(Upload { stage }),
        }
    }

    /// Compresses requests with this codec; see [`Opening::with_codec`].
    pub fn with_codec(self, codec: Codec) -> Upload<Q, P> {
        match self.stage {
            Stage::Opening(opening) => Upload::new(opening.with_codec(codec)),
            stage => Upload { stage },
        }
    }

    /// Sets whether requests are compressed from now on; see [`Sender::compress`]. This starts the
    /// call, if it has not started yet.
    ///
    /// # Errors
    /// As [`Upload::send`].
    pub async fn compress(&mut self, compress: bool) -> Result<(), Status> {
        self.open().await?.compress(compress);
        Ok(())
    }

    /// Makes the call part of a distributed trace; see [`Opening::with_trace`].
    pub fn with_trace(self, trace: TraceContext) -> Upload<Q, P> {
        match self.stage {
            Stage::Opening(opening) => Upload::new(opening.with_trace(trace)),
            stage => Upload { stage },
        }
    }

    /// Replaces all metadata; see [`Opening::with_all_metadata`].
    pub fn with_all_metadata(self, metadata: Metadata) -> Upload<Q, P> {
        match self.stage {
            Stage::Opening(opening) => Upload::new(opening.with_all_metadata(metadata)),
            stage => Upload { stage },
        }
    }

    /// Sends a message; see [`Sender::send`].
    ///
    /// # Errors
    /// As for [`Sender::send`]. The server may have answered already: [`Upload::finish`] returns
    /// its answer.
    pub async fn send(&mut self, message: impl Into<Msg<Q>>) -> Result<(), Status> {
        let requests = self.open().await?;
        requests.send(message).await
    }

    /// Closes the stream of requests, and waits for the response.
    ///
    /// # Errors
    /// The call's status with all metadata in it, or a transport error; `UNIMPLEMENTED` if the
    /// server sends no response message or more than one.
    pub async fn finish(mut self) -> Result<Response<P>, Status> {
        self.open().await?;
        let Stage::Open(mut responses, requests) = self.stage else {
            unreachable!("it has just been opened")
        };
        requests.close();
        let message = responses.single().await;
        let compressed = Some(responses.was_compressed());
        let (metadata, trailers) = responses.take_metadata();
        let message = message.map_err(|status| all_in_status(metadata.clone(), status))?;
        Ok(Response::received(message, More { metadata, trailers, compressed }))
    }

    async fn open(&mut self) -> Result<&mut Sender<Q>, Status> {
        if let Stage::Opening(opening) = &mut self.stage {
            self.stage = match opening.await {
                Ok((requests, responses)) => Stage::Open(responses, requests),
                Err(status) => Stage::Failed(status),
            };
        }
        match &mut self.stage {
            Stage::Open(_, requests) => Ok(requests),
            Stage::Failed(status) => Err(status.clone()),
            Stage::Opening(_) => unreachable!("it has just been awaited"),
        }
    }
}

impl ServiceClient {
    /// Calls the client-streaming method with this index.
    pub fn client_streaming<Q: Message, P: Message>(&self, method: u16) -> Upload<Q, P> {
        Upload::new(self.bidirectional(method))
    }
}

impl<Q, P> fmt::Debug for Upload<Q, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_begun = !matches!(self.stage, Stage::Opening(_));
        f.debug_struct("Upload").field("begun", &has_begun).finish_non_exhaustive()
    }
}
