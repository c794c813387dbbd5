//! What a router says of its group to who operates it.

use std::path::Path;

use petasos::{Channel, Request, block_on};
use petasos_admin::router::{Group, RouterClient, StatusRequest};

use crate::error::BenchError;

/// A connection to the socket of a router for operators.
pub struct Operator(RouterClient);

/// What a group has done, and has at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were given to workers, by whomever.
    pub given: u64,
    /// Of these, by the program in the kernel; `None` without one.
    pub by_program: Option<u64>,
    /// Places that are taken at workers.
    pub outstanding: u64,
    pub workers: u32,
}

impl Operator {
    /// Connects.
    ///
    /// # Errors
    /// If the router does not listen there.
    pub fn at(socket: &Path) -> Result<Operator, BenchError> {
        let target = format!("grpc+unix://{}", socket.display());
        Ok(Operator(RouterClient::new(block_on(Channel::builder(&target).connect())?)))
    }

    /// Asks for the counts of the router's one group.
    ///
    /// # Errors
    /// If it does not answer, or has no group.
    pub fn counts(&self) -> Result<Counts, BenchError> {
        let status = block_on(self.0.status(Request::new(StatusRequest::new())))?;
        let group = status.groups().iter().next().ok_or("the router has no group")?;
        Ok(Counts {
            given: group.given(),
            by_program: given_by_program(group),
            outstanding: group.outstanding(),
            workers: group.workers(),
        })
    }
}

/// At once, and when a worker had a place again.
fn given_by_program(group: &Group) -> Option<u64> {
    let of = |name| group.program().iter().find(|it| it.name() == name).map(|it| it.count());
    Some(of("given")? + of("unparked")?)
}
