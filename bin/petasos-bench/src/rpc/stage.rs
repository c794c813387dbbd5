//! The processes of all contenders of a measurement.

use std::time::Duration;

use super::args::RpcArgs;
use super::certificates::Certificates;
use super::phase::Phase;
use super::process::{Duo, DuoTurn};
use super::role::Contender;
use crate::error::BenchError;

/// The pair of processes of every contender. Each is started once.
pub struct Stage {
    contenders: Vec<Contender>,
    duos: Vec<Duo>,
    certificates: Option<Certificates>,
}

impl Stage {
    /// A stage without processes.
    pub fn new(args: &RpcArgs) -> Result<Stage, BenchError> {
        let certificates = args.tls.then(Certificates::new).transpose()?;
        Ok(Stage { contenders: Vec::new(), duos: Vec::new(), certificates })
    }

    /// The place of a contender, which is started if it is new.
    pub fn place(&mut self, args: &RpcArgs, contender: Contender) -> Result<usize, BenchError> {
        if let Some(at) = self.contenders.iter().position(|known| *known == contender) {
            return Ok(at);
        }
        self.duos.push(Duo::start(contender, args, self.certificates.as_ref())?);
        self.contenders.push(contender);
        Ok(self.duos.len() - 1)
    }

    /// Runs a turn of the contender at a place.
    pub fn turn(
        &mut self,
        at: usize,
        phase: Phase,
        duration: Duration,
    ) -> Result<DuoTurn, BenchError> {
        self.duos[at].turn(phase, duration)
    }
}
