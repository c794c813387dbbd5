//! Three versions of one service.
#![allow(dead_code, reason = "each test file uses its own part")]

use petasos::{Msg, Request, Response, Status};

use crate::greeter::generated as older;

#[allow(missing_docs, dead_code, reason = "each test uses its part")]
#[rustfmt::skip]
pub mod newer;
#[allow(missing_docs, dead_code, reason = "each test uses its part")]
#[rustfmt::skip]
pub mod other;

/// The service in both versions that understand each other.
#[derive(Clone)]
pub struct Friendly;

impl older::Greeter for Friendly {
    async fn greet(
        &self,
        request: Request<older::Name>,
    ) -> Result<Response<older::Greeting>, Status> {
        let mut greeting = older::Greeting::new();
        greeting.edit().set_text(format!("hello, {}", request.name()));
        Ok(Response::new(greeting))
    }

    async fn echo(&self, request: Request<older::Blob>) -> Result<Response<older::Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }
}

impl newer::Greeter for Friendly {
    async fn greet(
        &self,
        request: Request<newer::Name>,
    ) -> Result<Response<newer::Greeting>, Status> {
        let mut greeting = newer::Greeting::new();
        let name = [request.title(), request.name()].join(" ");
        greeting.edit().set_text(format!("hello, {}", name.trim())).set_words(2);
        Ok(Response::new(greeting))
    }

    async fn echo(&self, request: Request<newer::Blob>) -> Result<Response<newer::Blob>, Status> {
        Ok(Response::new(request.into_message()))
    }

    async fn anew(
        &self,
        request: Request<newer::Name>,
    ) -> Result<Response<newer::Greeting>, Status> {
        newer::Greeter::greet(self, request).await
    }
}

pub fn older_name(text: &str) -> Msg<older::Name> {
    let mut name = older::Name::new();
    name.edit().set_name(text);
    name
}
