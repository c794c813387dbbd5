//! The client under test: makes the calls that the runner asks for, and reports their results.

use std::future::Future;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use connect_conformance::messages::{
    Answer, Cancel, CancelTiming, ClientCompatRequest, ClientCompatResponse, ClientErrorResult,
    ClientResponseResult, ClientResult, Compression, StreamType,
};
use connect_conformance::service::{
    BidiStreamRequest, ClientStreamRequest, ConformanceServiceClient, ServerStreamRequest,
    UnaryRequest, UnimplementedRequest,
};
use connect_conformance::{SERVICE, bytes, error, headers, metadata, read, typed, write};
use petasos::grpc::{ClientConfig, ClientTls, Pem};
use petasos::message::Message as Typed;
use petasos::{Channel, Metadata, Request, Response, Status, Streaming};
use prost::Message;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::sleep;

/// The maximum number of concurrent calls.
const CALLS_MAX: usize = 8;

#[tokio::main]
async fn main() -> ExitCode {
    match answer_all().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("connect-conformance-client: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn answer_all() -> io::Result<()> {
    let mut input = tokio::io::stdin();
    let output = Arc::new(Mutex::new(tokio::io::stdout()));
    let free = Arc::new(Semaphore::new(CALLS_MAX));
    while let Some(request) = read::<ClientCompatRequest>(&mut input).await? {
        let permit = free.clone().acquire_owned().await.expect("it is never closed");
        let output = output.clone();
        tokio::spawn(async move {
            let result = match call(&request).await {
                Ok(result) => ClientResult::Response(result),
                Err(message) => ClientResult::Error(ClientErrorResult { message }),
            };
            let test_name = request.test_name;
            let response = ClientCompatResponse { test_name, result: Some(result) };
            // If the runner has gone, it needs no answers.
            let _ = write(&mut *output.lock().await, &response).await;
            drop(permit);
        });
    }
    let _ = free.acquire_many(CALLS_MAX as u32).await;
    Ok(())
}

/// Makes the call. An error means that the call could not be made at all.
async fn call(request: &ClientCompatRequest) -> Result<ClientResponseResult, String> {
    if request.service.as_deref() != Some(SERVICE) {
        return Err(format!("there is no service {:?}", request.service));
    }
    let scheme = if request.server_tls_cert.is_empty() { "grpc" } else { "grpcs" };
    let target = format!("{scheme}://{}:{}", request.host, request.port);
    let channel = Channel::builder(&target).grpc(config(request)?).connect_lazily();
    let client = ConformanceServiceClient::new(channel.map_err(|error| error.to_string())?);
    let metadata = metadata(&request.request_headers).map_err(|error| error.to_string())?;
    let timeout = request.timeout_ms.map(|ms| Duration::from_millis(ms.into()));
    let mut call = Call { request, metadata, timeout, result: ClientResponseResult::default() };
    let outcome = match (request.method.as_deref(), request.stream_type()) {
        (Some("Unimplemented"), _) => {
            let requested = call.unary_request::<UnimplementedRequest>(0);
            call.unary(requested.map(|request| client.unimplemented(request))).await
        }
        (_, StreamType::Unary) => {
            let requested = call.unary_request::<UnaryRequest>(0);
            call.unary(requested.map(|request| client.unary(request))).await
        }
        (_, StreamType::ClientStream) => call.upload(&client).await,
        (_, StreamType::ServerStream) => call.download(&client).await,
        _ => call.converse(&client).await,
    };
    call.result.error = outcome.err().as_ref().map(error);
    Ok(call.result)
}

fn config(request: &ClientCompatRequest) -> Result<ClientConfig, String> {
    let mut config = ClientConfig::default();
    // The suite's messages are short, but must be compressed.
    config.compress_bytes_min = 0;
    if request.compression() == Compression::Gzip {
        config.compression = petasos::grpc::Compression::Gzip;
    }
    if request.message_receive_limit > 0 {
        config.receive_bytes_max = request.message_receive_limit as usize;
    }
    if !request.server_tls_cert.is_empty() {
        let own = request.client_tls_creds.clone();
        let pem = Pem {
            certificate: own.as_ref().map(|own| own.cert.clone()),
            key: own.map(|own| own.key),
            authorities: Some(request.server_tls_cert.clone()),
        };
        config.tls = Some(ClientTls::from_pem(&pem).map_err(|error| error.to_string())?);
    }
    Ok(config)
}

struct Call<'a> {
    request: &'a ClientCompatRequest,
    metadata: Metadata,
    timeout: Option<Duration>,
    result: ClientResponseResult,
}

impl Call<'_> {
    /// The request of this number, with the call's metadata and options.
    fn unary_request<Q: Typed>(&self, index: usize) -> Result<Request<Q>, Status> {
        let value = self.request.request_messages.get(index).map(|any| &any.value[..]);
        let mut request = Request::new(typed::<Q>(value.unwrap_or_default())?);
        *request.metadata_mut() = self.metadata.clone();
        Ok(match self.timeout {
            Some(timeout) => request.with_timeout(timeout),
            None => request,
        })
    }

    async fn unary<P: Typed>(
        &mut self,
        call: Result<impl Future<Output = Result<Response<P>, Status>>, Status>,
    ) -> Result<(), Status> {
        self.pause().await;
        let outcome = self.unless_cancelled(call?).await;
        self.keep_response(outcome)
    }

    async fn upload(&mut self, client: &ConformanceServiceClient) -> Result<(), Status> {
        let mut upload = client.client_stream().with_all_metadata(self.metadata.clone());
        if let Some(timeout) = self.timeout {
            upload = upload.with_timeout(timeout);
        }
        let requests = &self.request.request_messages;
        for (index, request) in requests.iter().enumerate() {
            self.pause().await;
            if upload.send(typed::<ClientStreamRequest>(&request.value)?).await.is_err() {
                // Finishing the call returns the reason.
                self.result.num_unsent_requests = (requests.len() - index) as i32;
                break;
            }
        }
        if let Some(CancelTiming::BeforeCloseSend(())) = self.timing() {
            return Err(given_up());
        }
        let outcome = self.unless_cancelled(upload.finish()).await;
        self.keep_response(outcome)
    }

    async fn download(&mut self, client: &ConformanceServiceClient) -> Result<(), Status> {
        let request = self.unary_request::<ServerStreamRequest>(0)?;
        self.pause().await;
        let mut responses = client.server_stream(request).await?;
        match self.timing() {
            Some(CancelTiming::BeforeCloseSend(())) => return Err(given_up()),
            Some(CancelTiming::AfterCloseSendMs(ms)) => {
                sleep(Duration::from_millis(ms.into())).await;
                return Err(given_up());
            }
            _ => {}
        }
        let outcome = self.receive_all(&mut responses).await;
        self.keep_metadata(&mut responses).await;
        outcome
    }

    async fn converse(&mut self, client: &ConformanceServiceClient) -> Result<(), Status> {
        let mut opening = client.bidi_stream().with_all_metadata(self.metadata.clone());
        if let Some(timeout) = self.timeout {
            opening = opening.with_timeout(timeout);
        }
        let (mut requests, mut responses) = opening.await?;
        let is_full = self.request.stream_type() == StreamType::FullDuplexBidi;
        let all = &self.request.request_messages;
        let mut outcome = Ok(true);
        for (index, request) in all.iter().enumerate() {
            self.pause().await;
            if requests.send(typed::<BidiStreamRequest>(&request.value)?).await.is_err() {
                // The responses contain the reason.
                self.result.num_unsent_requests = (all.len() - index) as i32;
                break;
            }
            if is_full {
                outcome = self.receive(&mut responses).await;
                if !matches!(outcome, Ok(true)) {
                    break;
                }
            }
        }
        match self.timing() {
            Some(CancelTiming::BeforeCloseSend(())) => return Err(given_up()),
            Some(CancelTiming::AfterCloseSendMs(ms)) => {
                requests.close();
                sleep(Duration::from_millis(ms.into())).await;
                return Err(given_up());
            }
            _ => requests.close(),
        }
        if let Ok(true) = outcome {
            outcome = self.receive_all(&mut responses).await.map(|()| false);
        }
        self.keep_metadata(&mut responses).await;
        outcome.map(|_| ())
    }

    async fn receive_all<P: Typed>(&mut self, from: &mut Streaming<P>) -> Result<(), Status> {
        while self.receive(from).await? {}
        Ok(())
    }

    /// Receives the next response. Returns false if there is none.
    async fn receive<P: Typed>(&mut self, from: &mut Streaming<P>) -> Result<bool, Status> {
        let Some(response) = from.message().await? else { return Ok(false) };
        self.keep(&**response)?;
        let received = self.result.payloads.len();
        match self.timing() {
            Some(CancelTiming::AfterNumResponses(count)) if received == count as usize => {
                Err(given_up())
            }
            _ => Ok(true),
        }
    }

    fn keep<P: Typed>(&mut self, response: &P) -> Result<(), Status> {
        let answer = Answer::decode(&bytes(response)?[..]);
        let answer = answer.map_err(|error| Status::internal(error.to_string()))?;
        self.result.payloads.push(answer.payload.unwrap_or_default());
        Ok(())
    }

    fn keep_response<P: Typed>(
        &mut self,
        outcome: Result<Response<P>, Status>,
    ) -> Result<(), Status> {
        match outcome {
            Ok(response) => {
                self.result.response_headers = headers(response.metadata());
                self.result.response_trailers = headers(response.trailers());
                self.keep(&*response)
            }
            Err(status) => {
                self.result.response_trailers = headers(status.metadata());
                Err(status)
            }
        }
    }

    async fn keep_metadata<P: Typed>(&mut self, from: &mut Streaming<P>) {
        if let Ok(head) = from.head().await {
            self.result.response_headers = headers(head);
        }
        self.result.response_trailers = from.trailers().map(headers).unwrap_or_default();
    }

    /// The outcome of a call, unless it is cancelled before.
    async fn unless_cancelled<P: Typed>(
        &self,
        call: impl Future<Output = Result<Response<P>, Status>>,
    ) -> Result<Response<P>, Status> {
        let after = match self.timing() {
            Some(CancelTiming::BeforeCloseSend(())) => Duration::ZERO,
            Some(CancelTiming::AfterCloseSendMs(ms)) => Duration::from_millis(ms.into()),
            _ => return call.await,
        };
        tokio::time::timeout(after, call).await.unwrap_or_else(|_| Err(given_up()))
    }

    fn timing(&self) -> Option<CancelTiming> {
        self.request.cancel.as_ref().and_then(|Cancel { timing }| timing.clone())
    }

    async fn pause(&self) {
        sleep(Duration::from_millis(self.request.request_delay_ms.into())).await;
    }
}

/// The status that this client reports for a call that it has dropped.
fn given_up() -> Status {
    Status::cancelled("the call was given up")
}
