//! The turns of all contenders, round by round.

use petasos_report::{Histogram, Pairs, Progress, Quantity};

use super::args::{RpcArgs, TURN};
use super::floor;
use super::phase::Phase;
use super::process::DuoTurn;
use super::role::Contender;
use super::stage::Stage;
use crate::error::BenchError;

/// The name in [`Pairs`] of the system that Petasos is compared with.
pub const PEER: &str = "peer";
pub const FLOOR: &str = "floor";

/// All measurements.
pub struct Rounds {
    pub phases: Vec<PhaseRounds>,
}

/// All turns of one phase.
pub struct PhaseRounds {
    pub phase: Phase,
    /// In the phase's quantity.
    pub pairs: Pairs,
    /// Processor time per call in microseconds; of a window of calls only.
    pub cpu: Pairs,
    pub petasos: Total,
    pub peer: Total,
    pub floor: Option<Total>,
}

/// The totals of a contender's turns of one phase.
#[derive(Clone, Debug, Default)]
pub struct Total {
    pub completed: u64,
    pub cpu_s: f64,
    pub latency: Histogram,
}

impl Total {
    /// Adds a turn.
    pub fn add(&mut self, turn: &DuoTurn) {
        self.completed += turn.client.completed;
        self.cpu_s += turn.cpu_s();
        self.latency.merge(&turn.client.latency);
    }

    /// Processor time of both sides, in seconds per million calls.
    pub fn cpu_s_per_million(&self) -> Option<f64> {
        (self.completed > 0).then(|| self.cpu_s / self.completed as f64 * 1e6)
    }
}

/// A phase during the measurement, with its contenders' places.
struct Plan {
    phase: Phase,
    petasos: usize,
    peer: usize,
    floor: Option<usize>,
}

impl Plan {
    fn new(stage: &mut Stage, args: &RpcArgs, phase: Phase) -> Result<Plan, BenchError> {
        let mut place = |contender| stage.place(args, contender);
        let petasos = place(Contender::petasos(args.peer, phase))?;
        let peer = place(Contender::peer(args.peer, phase))?;
        let floor = floor::exists(args, phase).then(|| place(Contender::Floor));
        Ok(Plan { phase, petasos, peer, floor: floor.transpose()? })
    }

    fn turns(&self) -> usize {
        2 + usize::from(self.floor.is_some())
    }
}

/// Measures all phases.
pub fn run(args: &RpcArgs) -> Result<Rounds, BenchError> {
    let mut stage = Stage::new(args)?;
    let plans = args.phases().into_iter().map(|phase| Plan::new(&mut stage, args, phase));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    let mut phases: Vec<_> = plans.iter().map(|plan| PhaseRounds::new(args, plan)).collect();
    let goal = args.rounds(plans.iter().map(Plan::turns).sum());
    let mut progress = Progress::new("rpc", goal as u64);
    // The first round does not count: it opens connections and touches memory.
    for round in 0..=goal {
        for (plan, measured) in plans.iter().zip(&mut phases) {
            let mut turn = |at: usize| stage.turn(at, plan.phase, TURN);
            let (petasos, peer) = (turn(plan.petasos)?, turn(plan.peer)?);
            let floor = plan.floor.map(turn).transpose()?;
            if round > 0 {
                measured.add(args, &petasos, &peer, floor.as_ref());
            }
        }
        progress.set(round as u64);
    }
    progress.finish("done");
    Ok(Rounds { phases })
}

impl PhaseRounds {
    fn new(args: &RpcArgs, plan: &Plan) -> PhaseRounds {
        let names = [Some(PEER), plan.floor.map(|_| FLOOR)];
        PhaseRounds {
            phase: plan.phase,
            pairs: Pairs::new(quantity(args, plan.phase), names.into_iter().flatten()),
            cpu: Pairs::new(Quantity::LatencyUs, [PEER]),
            petasos: Total::default(),
            peer: Total::default(),
            floor: plan.floor.map(|_| Total::default()),
        }
    }

    fn add(&mut self, args: &RpcArgs, petasos: &DuoTurn, peer: &DuoTurn, floor: Option<&DuoTurn>) {
        let quantity = self.pairs.quantity();
        let value = |turn: &DuoTurn| value(args, quantity, turn);
        let others: Vec<_> = [Some(peer), floor].into_iter().flatten().map(value).collect();
        // `Pairs` counts turns without a result, and reports them.
        self.pairs.push(value(petasos), &others).ok();
        self.cpu.push(cpu_us(petasos), &[cpu_us(peer)]).ok();
        self.petasos.add(petasos);
        self.peer.add(peer);
        if let (Some(total), Some(floor)) = (&mut self.floor, floor) {
            total.add(floor);
        }
    }
}

/// The quantity of a phase.
pub fn quantity(args: &RpcArgs, phase: Phase) -> Quantity {
    match phase {
        Phase::Spinning | Phase::Sleeping => Quantity::LatencyUs,
        Phase::Window => args.window_quantity(),
    }
}

/// The result of a turn in a phase's quantity.
pub fn value(args: &RpcArgs, quantity: Quantity, turn: &DuoTurn) -> f64 {
    let DuoTurn { client, server } = turn;
    match quantity {
        Quantity::LatencyUs => client.latency.quantile_us(0.5).unwrap_or(f64::NAN),
        Quantity::OpsPerS => client.completed as f64 / client.elapsed_s,
        // For a one-way floor, received bytes count.
        Quantity::GbitPerS if client.completed == 0 => {
            server.bytes as f64 * 8e-9 / server.elapsed_s
        }
        Quantity::GbitPerS => {
            let bytes = client.completed as f64 * f64::from(args.payload_bytes());
            bytes * 8e-9 / client.elapsed_s
        }
    }
}

/// Processor time of both sides per call.
pub fn cpu_us(turn: &DuoTurn) -> f64 {
    turn.cpu_s() / turn.client.completed as f64 * 1e6
}
