//! The typed demonstration services: [`demo.proto`](../../protos/demo.proto).

use petasos::{Msg, Request, Response, Sender, Server, ServerBuilder, Status, Streaming, message};
use petasos_reflection::Reflection;

use super::Shared;
use generated::{Echo, EchoServer, Key, KeyValue, KeyValueServer, Pair, Stored, Text, Value};

mod generated {
    petasos::include_proto!("petasos.demo.v1");
}

/// The echo service.
struct Mirror;

impl Echo for Mirror {
    async fn say(&self, request: Request<Text>) -> Result<Response<Text>, Status> {
        Ok(Response::new(request.into_message()))
    }

    async fn chat(&self, mut texts: Streaming<Text>, mut out: Sender<Text>) -> Result<(), Status> {
        while let Some(text) = texts.message().await? {
            out.send(text).await?;
        }
        Ok(())
    }
}

impl KeyValue for Shared {
    async fn put(&self, request: Request<Pair>) -> Result<Response<Stored>, Status> {
        match self.lock().put(request.key(), request.value().into()) {
            super::Status::Done => Ok(Response::new(Stored::new())),
            _ => Err(Status::resource_exhausted("the store has no room for the value")),
        }
    }

    async fn get(&self, request: Request<Key>) -> Result<Response<Value>, Status> {
        let value = self.lock().get(request.key());
        let missing = || Status::not_found(format!("no value under key {}", request.key()));
        let value: Msg<Value> = message!(Value { value: &*value.ok_or_else(missing)? });
        Ok(Response::new(value))
    }
}

/// A server for these services with a store, with health and reflection.
pub fn services(store: &Shared) -> ServerBuilder {
    let (echo, values) = (EchoServer::new(Mirror), KeyValueServer::new(store.clone()));
    let (_, health) = petasos_health::service();
    let mut reflection = Reflection::new();
    reflection.describe(&echo);
    reflection.describe(&values);
    reflection.describe(&health);
    let (v1, v1alpha) = reflection.services();
    Server::builder().add(echo).add(values).add(health).add(v1).add(v1alpha)
}
