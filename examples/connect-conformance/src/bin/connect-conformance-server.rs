//! The server under test: serves `ConformanceService` as its requests ask, until it is killed.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use connect_conformance::messages::{
    Answer, Any, BidiStreamRequest, ConformancePayload, Error, RequestInfo, ServerCompatRequest,
    ServerCompatResponse, ServerStreamRequest, StreamResponseDefinition, UnaryOutcome,
    UnaryRequest, UnaryResponseDefinition,
};
use connect_conformance::{
    bytes, headers, metadata, read, service, status, type_url, typed, write,
};
use petasos::grpc::{GrpcConfig, Pem, ServerTls};
use petasos::message::Message as Typed;
use petasos::{Metadata, MetadataError, Msg, Request, Response, Sender, Server, Status, Streaming};
use prost::Message;
use service::{ConformanceService, ConformanceServiceServer};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("connect-conformance-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> io::Result<()> {
    let request: Option<ServerCompatRequest> = read(&mut tokio::io::stdin()).await?;
    let request = request.ok_or_else(|| io::Error::other("there is no request"))?;
    let (config, pem_cert) = config(request)?;
    let server = Server::builder().add(ConformanceServiceServer::new(Conformance));
    let server = server.grpc("127.0.0.1:0", config).start().map_err(io::Error::other)?;
    let address = server.grpc_address().expect("it was asked for");
    let port = u32::from(address.port());
    let response = ServerCompatResponse { host: address.ip().to_string(), port, pem_cert };
    write(&mut tokio::io::stdout(), &response).await?;
    // The runner kills the process when it is done.
    std::future::pending::<()>().await;
    drop(server);
    Ok(())
}

/// The server's configuration, and the certificate that clients must trust.
fn config(request: ServerCompatRequest) -> io::Result<(GrpcConfig, Vec<u8>)> {
    let mut config = GrpcConfig::default();
    // The suite's messages are short, but must be compressed.
    config.compress_bytes_min = 0;
    if request.message_receive_limit > 0 {
        config.receive_bytes_max = request.message_receive_limit as usize;
    }
    if !request.use_tls {
        return Ok((config, Vec::new()));
    }
    let own = request.server_creds.ok_or_else(|| io::Error::other("there is no certificate"))?;
    let authorities = Some(request.client_tls_cert).filter(|pem| !pem.is_empty());
    let certificate = own.cert.clone();
    let pem = Pem { certificate: Some(own.cert), key: Some(own.key), authorities };
    config.tls = Some(ServerTls::from_pem(&pem).map_err(io::Error::other)?);
    Ok((config, certificate))
}

struct Conformance;

impl ConformanceService for Conformance {
    async fn unary(
        &self,
        request: Request<service::UnaryRequest>,
    ) -> Result<Response<service::UnaryResponse>, Status> {
        let mut call = Call::new("UnaryRequest", request.metadata(), request.timeout());
        let bytes = bytes(&*request)?;
        let definition = decode::<UnaryRequest>(&bytes)?.response_definition;
        call.take(bytes);
        call.answer_once(definition).await
    }

    async fn client_stream(
        &self,
        mut requests: Streaming<service::ClientStreamRequest>,
    ) -> Result<Response<service::ClientStreamResponse>, Status> {
        let mut call = Call::new("ClientStreamRequest", requests.metadata(), requests.timeout());
        let mut definition = None;
        while let Some(request) = requests.message().await? {
            let bytes = bytes(&**request)?;
            if call.info.requests.is_empty() {
                definition = decode::<UnaryRequest>(&bytes)?.response_definition;
            }
            call.take(bytes);
        }
        call.answer_once(definition).await
    }

    async fn server_stream(
        &self,
        request: Request<service::ServerStreamRequest>,
        mut responses: Sender<service::ServerStreamResponse>,
    ) -> Result<(), Status> {
        let mut call = Call::new("ServerStreamRequest", request.metadata(), request.timeout());
        let bytes = bytes(&*request)?;
        let definition = decode::<ServerStreamRequest>(&bytes)?.response_definition;
        call.take(bytes);
        let Some(definition) = definition else { return Ok(()) };
        begin(&mut responses, &definition)?;
        call.respond_rest(&mut responses, definition).await
    }

    async fn bidi_stream(
        &self,
        mut requests: Streaming<service::BidiStreamRequest>,
        mut responses: Sender<service::BidiStreamResponse>,
    ) -> Result<(), Status> {
        let mut call = Call::new("BidiStreamRequest", requests.metadata(), requests.timeout());
        let mut first: Option<BidiStreamRequest> = None;
        while let Some(request) = requests.message().await? {
            let bytes = bytes(&**request)?;
            if first.is_none() {
                let request: BidiStreamRequest = decode(&bytes)?;
                if let Some(definition) = &request.response_definition {
                    begin(&mut responses, definition)?;
                }
                first = Some(request);
            }
            call.take(bytes);
            let turn = first.as_ref().filter(|first| first.full_duplex);
            let Some(turn) = turn else { continue };
            let Some(definition) = &turn.response_definition else { break };
            let Some(data) = definition.response_data.get(call.sent) else { break };
            pause(definition.response_delay_ms).await;
            let response = call.response(data.clone())?;
            responses.send(response).await?;
        }
        match first.and_then(|first| first.response_definition) {
            None => Ok(()),
            Some(definition) => call.respond_rest(&mut responses, definition).await,
        }
    }

    async fn unimplemented(
        &self,
        _: Request<service::UnimplementedRequest>,
    ) -> Result<Response<service::UnimplementedResponse>, Status> {
        Err(Status::unimplemented("as the suite wants it"))
    }
}

/// The state of a call.
struct Call {
    /// What the next response reports about the requests.
    info: RequestInfo,
    type_url: String,
    sent: usize,
}

impl Call {
    fn new(request: &str, metadata: &Metadata, timeout: Option<Duration>) -> Call {
        let info = RequestInfo {
            request_headers: headers(metadata),
            timeout_ms: timeout.map(|timeout| timeout.as_millis() as i64),
            requests: Vec::new(),
        };
        Call { info, type_url: type_url(request), sent: 0 }
    }

    /// Answers with one response, or an error with all metadata.
    async fn answer_once<P: Typed>(
        &mut self,
        definition: Option<UnaryResponseDefinition>,
    ) -> Result<Response<P>, Status> {
        let Some(definition) = definition else {
            return self.response(Vec::new()).map(Response::new);
        };
        let head = metadata(&definition.response_headers).map_err(unfit)?;
        let trailers = metadata(&definition.response_trailers).map_err(unfit)?;
        pause(definition.response_delay_ms).await;
        let data = match definition.response {
            Some(UnaryOutcome::Error(error)) => {
                let mut all = head;
                for (key, value) in trailers.iter() {
                    all.append_bytes(key.as_bytes(), value).map_err(unfit)?;
                }
                return Err(self.failure(error).with_metadata(all));
            }
            Some(UnaryOutcome::ResponseData(data)) => data,
            None => Vec::new(),
        };
        let mut response: Response<P> = Response::new(self.response(data)?);
        *response.metadata_mut() = head;
        *response.trailers_mut() = trailers;
        Ok(response)
    }

    async fn respond_rest<P: Typed>(
        &mut self,
        responses: &mut Sender<P>,
        definition: StreamResponseDefinition,
    ) -> Result<(), Status> {
        for data in definition.response_data.into_iter().skip(self.sent) {
            pause(definition.response_delay_ms).await;
            let response = self.response(data)?;
            responses.send(response).await?;
        }
        match definition.error {
            None => Ok(()),
            Some(error) if self.sent == 0 => Err(self.failure(error)),
            Some(error) => Err(status(error)),
        }
    }

    /// A response, which reports the requests if that has not been done.
    fn response<P: Typed>(&mut self, data: Vec<u8>) -> Result<Msg<P>, Status> {
        let info = std::mem::take(&mut self.info);
        let request_info = (self.sent == 0 || !info.requests.is_empty()).then_some(info);
        let payload = Some(ConformancePayload { data, request_info });
        self.sent += 1;
        typed(&Answer { payload }.encode_to_vec())
    }

    /// A status that reports the requests, because no response has done so.
    fn failure(&mut self, mut error: Error) -> Status {
        let value = std::mem::take(&mut self.info).encode_to_vec();
        let type_url = type_url("ConformancePayload.RequestInfo");
        error.details.push(Any { type_url, value });
        status(error)
    }

    fn take(&mut self, value: Vec<u8>) {
        self.info.requests.push(Any { type_url: self.type_url.clone(), value });
    }
}

/// Sends the headers of a stream, and keeps its trailers for the end.
fn begin<P: Typed>(
    responses: &mut Sender<P>,
    definition: &StreamResponseDefinition,
) -> Result<(), Status> {
    *responses.metadata_mut() = metadata(&definition.response_headers).map_err(unfit)?;
    *responses.trailers_mut() = metadata(&definition.response_trailers).map_err(unfit)?;
    responses.send_metadata();
    Ok(())
}

async fn pause(ms: u32) {
    sleep(Duration::from_millis(ms.into())).await;
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| Status::internal(error.to_string()))
}

/// The status for metadata in the suite that is not valid.
fn unfit(error: MetadataError) -> Status {
    Status::internal(error.to_string())
}
