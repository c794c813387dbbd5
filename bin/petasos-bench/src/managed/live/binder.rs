//! A process that attaches to the managed service and binds a schema, and says how long that took.

use std::time::Duration;

use petasos::{Loop, Request, Response, Status};

use super::clock::now_ns;
use crate::error::BenchError;
use crate::managed::messages::policies::{First, FirstServer, Number, Numbered};
use crate::managed::messages::wide::{self, Wide, WideServer};
use crate::managed::part_args::{PartArgs, PartName};
use crate::rpc::ends::Client;
use crate::rpc::phase::{Phase, Turn};
use crate::rpc::typed::{LOOPBACK, behind};

/// Attaches in its turn, and stays.
pub struct Binder {
    service: Option<String>,
    is_wide: bool,
    attached: Option<Loop>,
}

struct Nobody;

impl First for Nobody {
    async fn call(&self, _: Request<Numbered>) -> Result<Response<Number>, Status> {
        Err(Status::unimplemented("it is only bound"))
    }
}

impl Wide for Nobody {
    async fn get(&self, _: Request<wide::Request>) -> Result<Response<wide::Response>, Status> {
        Err(Status::unimplemented("it is only bound"))
    }
}

impl Binder {
    /// A process that has not attached.
    ///
    /// # Errors
    /// If no service is named.
    pub fn new(args: &PartArgs) -> Result<Binder, BenchError> {
        // What is wrong shows before the turn.
        behind(args.service.as_deref(), None)?;
        let is_wide = args.name == PartName::WideBinder;
        Ok(Binder { service: args.service.clone(), is_wide, attached: None })
    }

    fn attach(&self) -> Result<Loop, BenchError> {
        let event_loop = Loop::new(behind(self.service.as_deref(), Some(LOOPBACK))?)?;
        match self.is_wide {
            true => event_loop.serve(WideServer::new(Nobody))?,
            false => event_loop.serve(FirstServer::new(Nobody))?,
        }
        event_loop.block_on(event_loop.served())?;
        Ok(event_loop)
    }
}

impl Client for Binder {
    fn turn(&mut self, _: Phase, _: Duration) -> Result<Turn, BenchError> {
        let begun_ns = now_ns();
        self.attached = Some(self.attach()?);
        let elapsed_s = (now_ns() - begun_ns).max(1) as f64 / 1e9;
        Ok(Turn { completed: 1, elapsed_s, ..Turn::default() })
    }
}
