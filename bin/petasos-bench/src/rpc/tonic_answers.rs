//! The service in tonic's server.

use bytes::Bytes;
use tonic::body::Body;
use tonic::codegen::http::{Request as HttpRequest, Response as HttpResponse};
use tonic::codegen::tokio_stream::StreamExt;
use tonic::codegen::{BoxFuture, BoxStream};
use tonic::server::{Grpc as GrpcServer, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};

use super::tonic_codec::{Fitting, Payload};
use super::tonic_routes::Methods;

/// The paths of the methods: a unary call, and a stream each way.
pub const CALL: &str = "/petasos.bench.Bench/Call";
pub const FLOW: &str = "/petasos.bench.Bench/Flow";

/// tonic's default of 4 MiB would reject the larger messages.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// A server that answers from a buffer.
#[derive(Clone)]
pub struct Answers {
    pub bytes: Bytes,
    pub codec: Fitting,
}

impl Answers {
    /// Returns as many bytes as the request asks for.
    fn answer(&self, request: &Payload) -> Result<Payload, Status> {
        let wanted = request.wanted_bytes as usize;
        if wanted > self.bytes.len() {
            return Err(Status::invalid_argument("more bytes than the measurement announced"));
        }
        Ok(Payload { wanted_bytes: 0, data: self.bytes.slice(..wanted) })
    }
}

impl UnaryService<Payload> for Answers {
    type Response = Payload;
    type Future = BoxFuture<Response<Payload>, Status>;

    fn call(&mut self, request: Request<Payload>) -> Self::Future {
        let answers = self.clone();
        Box::pin(async move { Ok(Response::new(answers.answer(request.get_ref())?)) })
    }
}

impl StreamingService<Payload> for Answers {
    type Response = Payload;
    type ResponseStream = BoxStream<Payload>;
    type Future = BoxFuture<Response<BoxStream<Payload>>, Status>;

    fn call(&mut self, requests: Request<Streaming<Payload>>) -> Self::Future {
        let answers = self.clone();
        Box::pin(async move {
            let responses = requests.into_inner();
            let responses = responses.map(move |request| answers.answer(&request?));
            Ok(Response::new(Box::pin(responses) as BoxStream<Payload>))
        })
    }
}

impl Methods for Answers {
    async fn run(self, request: HttpRequest<Body>) -> Option<HttpResponse<Body>> {
        let mut grpc = GrpcServer::new(self.codec).max_decoding_message_size(MESSAGE_BYTES_MAX);
        match request.uri().path() {
            CALL => Some(grpc.unary(self, request).await),
            FLOW => Some(grpc.streaming(self, request).await),
            _ => None,
        }
    }
}
