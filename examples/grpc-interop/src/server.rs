//! The service.

use std::time::Duration;

use petasos::{Code, Metadata, Msg, Request, Response, Sender, Status, Streaming};

use crate::service::{
    BoolValue, EchoStatus, Empty, ResponseParameters, SimpleRequest, SimpleResponse,
    StreamingInputCallRequest, StreamingInputCallResponse, StreamingOutputCallRequest,
    StreamingOutputCallResponse, TestService,
};
use crate::{ECHO_INITIAL, ECHO_TRAILING, LOAD_REPORT, Load, load, payload};

/// The largest payload that is sent, in bytes.
const PAYLOAD_BYTES_MAX: usize = 1 << 26;

/// The service that all cases are run against.
#[derive(Clone, Debug, Default)]
pub struct Interop {
    /// The load that is reported out of band.
    pub load: Load,
}

impl TestService for Interop {
    async fn empty_call(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        Ok(Response::new(Empty::new()))
    }

    async fn unary_call(
        &self,
        request: Request<SimpleRequest>,
    ) -> Result<Response<SimpleResponse>, Status> {
        check_status(request.response_status())?;
        check_compressed(request.expect_compressed(), request.was_compressed())?;
        let mut message = SimpleResponse::new();
        let size = size(request.response_size())?;
        message.set_payload(&payload(size));
        let mut response = Response::new(message);
        if let Some(wanted) = request.response_compressed() {
            response = response.compressed(wanted.value());
        }
        *response.metadata_mut() = echo(request.metadata(), ECHO_INITIAL);
        *response.trailers_mut() = echo(request.metadata(), ECHO_TRAILING);
        if let Some(wanted) = request.orca_per_query_report() {
            let mut report = Vec::new();
            let encoded = Msg::append_protobuf(&load::report(wanted), &mut report);
            encoded.map_err(|error| Status::internal(error.to_string()))?;
            let added = response.trailers_mut().append_bin(LOAD_REPORT, &report);
            added.map_err(|error| Status::invalid_argument(error.to_string()))?;
        }
        Ok(response)
    }

    async fn cacheable_unary_call(
        &self,
        request: Request<SimpleRequest>,
    ) -> Result<Response<SimpleResponse>, Status> {
        self.unary_call(request).await
    }

    async fn streaming_output_call(
        &self,
        request: Request<StreamingOutputCallRequest>,
        mut responses: Sender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        answer(&request, &mut responses).await
    }

    async fn streaming_input_call(
        &self,
        mut requests: Streaming<StreamingInputCallRequest>,
    ) -> Result<Response<StreamingInputCallResponse>, Status> {
        let mut sum = 0_usize;
        while let Some(request) = requests.message().await? {
            check_compressed(request.expect_compressed(), requests.was_compressed())?;
            sum += request.payload().map_or(0, |payload| payload.body().len());
        }
        let mut message = StreamingInputCallResponse::new();
        message.set_aggregated_payload_size(i32::try_from(sum).unwrap_or(i32::MAX));
        Ok(Response::new(message))
    }

    async fn full_duplex_call(
        &self,
        mut requests: Streaming<StreamingOutputCallRequest>,
        mut responses: Sender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        *responses.metadata_mut() = echo(requests.metadata(), ECHO_INITIAL);
        *responses.trailers_mut() = echo(requests.metadata(), ECHO_TRAILING);
        responses.send_metadata();
        let mut turn = None;
        while let Some(request) = requests.message().await? {
            if let Some(wanted) = request.orca_oob_report() {
                if turn.is_none() {
                    turn = Some(self.load.turn().await);
                }
                self.load.set(load::report(wanted));
            }
            answer(&request, &mut responses).await?;
        }
        Ok(())
    }

    async fn half_duplex_call(
        &self,
        mut requests: Streaming<StreamingOutputCallRequest>,
        mut responses: Sender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        let mut all: Vec<Msg<StreamingOutputCallRequest>> = Vec::new();
        while let Some(request) = requests.message().await? {
            all.push(request);
        }
        for request in &all {
            answer(request, &mut responses).await?;
        }
        Ok(())
    }

    async fn unimplemented_call(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        Err(Status::unimplemented("as the test wants it"))
    }
}

/// Sends the responses that a request asks for.
async fn answer(
    request: &StreamingOutputCallRequest,
    responses: &mut Sender<StreamingOutputCallResponse>,
) -> Result<(), Status> {
    check_status(request.response_status())?;
    if request.response_parameters().iter().any(asks_for_compression) {
        // Set before the first response, which may be uncompressed.
        responses.compress(true);
    }
    for wanted in request.response_parameters() {
        if let Ok(us @ 1..) = u64::try_from(wanted.interval_us()) {
            tokio::time::sleep(Duration::from_micros(us)).await;
        }
        let size = size(wanted.size())?;
        let mut response = StreamingOutputCallResponse::new();
        response.set_payload(&payload(size));
        if wanted.compressed().is_some() {
            responses.compress(asks_for_compression(wanted));
        }
        responses.send(response).await?;
    }
    Ok(())
}

/// The requested status, unless it is OK.
fn check_status(wanted: Option<&EchoStatus>) -> Result<(), Status> {
    match wanted.filter(|wanted| wanted.code() != 0) {
        None => Ok(()),
        Some(wanted) => {
            let code = Code::from_number(wanted.code().unsigned_abs());
            Err(Status::new(code, wanted.message().to_owned()))
        }
    }
}

/// Checks that a request was compressed as its client says.
fn check_compressed(expected: Option<&BoolValue>, was_compressed: bool) -> Result<(), Status> {
    match expected {
        Some(expected) if expected.value() != was_compressed => {
            let found = if was_compressed { "compressed" } else { "not compressed" };
            Err(Status::invalid_argument(format!("the request came {found}")))
        }
        _ => Ok(()),
    }
}

fn asks_for_compression(wanted: &ResponseParameters) -> bool {
    wanted.compressed().is_some_and(|compressed| compressed.value())
}

fn size(wanted: i32) -> Result<usize, Status> {
    let size = usize::try_from(wanted).ok().filter(|size| *size <= PAYLOAD_BYTES_MAX);
    size.ok_or_else(|| Status::invalid_argument(format!("no payload has {wanted} bytes")))
}

/// The entries of one key.
fn echo(metadata: &Metadata, key: &str) -> Metadata {
    let mut echo = Metadata::new();
    for (_, value) in metadata.iter().filter(|(known, _)| *known == key) {
        echo.append_bytes(key.as_bytes(), value).expect("it was metadata before");
    }
    echo
}
