//! tonic's responses: a head, frames that are passed on unchanged, and a status after them.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body as _;
use petasos::grpc::FrameWriter;
use petasos::{Metadata, Status};
use tonic::body::Body;

use crate::fields;

/// Sends a response as fast as the client accepts it, and ends the call.
pub(crate) async fn send(response: Response<Body>, mut writer: FrameWriter) {
    let (head, body) = response.into_parts();
    let status = match fields::status(&head.headers) {
        Some(status) => status,
        // A layer around the service may send such a response.
        None if head.status != StatusCode::OK => {
            Status::unknown(format!("the service answered with HTTP status {}", head.status))
        }
        None => {
            writer.head(fields::to_metadata(&head.headers));
            match send_body(body, &mut writer).await {
                Some(status) => status,
                None => return, // nobody waits for it any more
            }
        }
    };
    writer.end(status, Metadata::new());
}

/// Sends a body, and returns the status that ends it, unless the client has ended the call.
async fn send_body(mut body: Body, writer: &mut FrameWriter) -> Option<Status> {
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(status) => return Some(fields::of_tonic(status)),
        };
        match frame.into_data() {
            Ok(frames) => send_frames(frames, writer).await.ok()?,
            Err(other) => {
                let trailers = other.into_trailers().unwrap_or_default();
                return Some(fields::status(&trailers).unwrap_or_else(without_status));
            }
        }
    }
    Some(without_status())
}

async fn send_frames(frames: Bytes, writer: &mut FrameWriter) -> Result<(), Status> {
    poll_fn(|cx| writer.poll_ready(cx)).await?;
    writer.send_frames_now(frames)
}

fn without_status() -> Status {
    Status::internal("the service ended without a status")
}
