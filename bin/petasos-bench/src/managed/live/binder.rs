//! A process that attaches to the managed service and then binds a schema, and says how long each
//! took.

use std::time::Duration;

use petasos::{Loop, Request, Response, Status};
use petasos_base::SystemClock;

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

/// Serves what is only bound.
pub struct Nobody;

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
        // A process learns once how fast its processor counts: that is its start, not a bind.
        SystemClock::default();
        let is_wide = args.name == PartName::WideBinder;
        Ok(Binder { service: args.service.clone(), is_wide, attached: None })
    }

    /// A loop that serves, and since when it was attached.
    fn attach(&self) -> Result<(Loop, u64), BenchError> {
        let event_loop = Loop::new(behind(self.service.as_deref(), Some(LOOPBACK))?)?;
        event_loop.block_on(event_loop.served())?;
        let attached_ns = now_ns();
        match self.is_wide {
            true => event_loop.serve(WideServer::new(Nobody))?,
            false => event_loop.serve(FirstServer::new(Nobody))?,
        }
        event_loop.block_on(event_loop.served())?;
        Ok((event_loop, attached_ns))
    }
}

impl Client for Binder {
    fn turn(&mut self, _: Phase, _: Duration) -> Result<Turn, BenchError> {
        let begun_ns = now_ns();
        let (attached, attached_ns) = self.attach()?;
        self.attached = Some(attached);
        let since_s = |ns: u64| (now_ns() - ns).max(1) as f64 / 1e9;
        let (elapsed_s, bind_s) = (since_s(begun_ns), since_s(attached_ns));
        Ok(Turn { completed: 1, elapsed_s, bind_s, ..Turn::default() })
    }
}
