//! `petasos bench rpc --peer all`: all available peers, in the same rounds.
//!
//! Each round has a turn of every contender in every phase. A peer is compared with Petasos's turn
//! of the same round, over UDP, or over shared memory if the peer uses that.

mod outcome;

use std::path::Path;

use clap::ValueEnum;
use petasos_report::{Progress, median};

use super::args::{RpcArgs, TURN};
use super::floor;
use super::phase::Phase;
use super::program::Program;
use super::role::{Contender, Peer};
use super::rounds::{Total, quantity, value};
use super::stage::Stage;
use crate::error::BenchError;
use crate::publish;
use outcome::Outcome;

/// All measurements.
struct Measured {
    phases: Vec<Phase>,
    entries: Vec<Entry>,
    left_out: Vec<LeftOut>,
}

/// A row of the table.
struct Entry {
    who: Who,
    /// One for each phase.
    turns: Vec<Turns>,
}

/// A peer without results, and the reason.
struct LeftOut {
    name: &'static str,
    reason: String,
}

/// A contender's turns of one phase.
#[derive(Default)]
struct Turns {
    /// One value per round, in the phase's quantity; NaN if nothing was measured.
    values: Vec<f64>,
    total: Total,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Petasos,
    PetasosShared,
    Tonic,
    Program(Program),
    Floor,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Petasos => "petasos",
            Who::PetasosShared => "petasos (shm)",
            Who::Tonic => "tonic",
            Who::Program(program) => program.name(),
            Who::Floor => "floor (bare UDP)",
        }
    }

    /// The variant of Petasos that it is compared with.
    fn base(self) -> Who {
        match self {
            Who::PetasosShared | Who::Program(Program::Iceoryx2) => Who::PetasosShared,
            _ => Who::Petasos,
        }
    }

    /// The contender that runs in a phase.
    fn contender(self, phase: Phase) -> Contender {
        match self {
            Who::Petasos => Contender::petasos(Peer::Tonic, phase),
            Who::PetasosShared => Contender::petasos(Peer::Iceoryx2, phase),
            Who::Tonic => Contender::Tonic,
            Who::Program(program) => Contender::Program(program),
            Who::Floor => Contender::Floor,
        }
    }

    /// Whether it runs in a phase.
    fn takes_part(self, args: &RpcArgs, phase: Phase) -> bool {
        self != Who::Floor || floor::exists(args, phase)
    }

    /// All of them, in the order of the table.
    fn everybody() -> Vec<Who> {
        let programs = Peer::value_variants().iter().filter_map(|peer| peer.program());
        let own = [Who::Petasos, Who::PetasosShared, Who::Tonic];
        own.into_iter().chain(programs.map(Who::Program)).chain([Who::Floor]).collect()
    }
}

impl Measured {
    fn turns(&self, who: Who, phase: Phase) -> Option<&Turns> {
        let at = self.phases.iter().position(|known| *known == phase)?;
        let entry = self.entries.iter().find(|entry| entry.who == who)?;
        Some(&entry.turns[at]).filter(|turns| !turns.values.is_empty())
    }

    /// The median of the rounds' ratios of Petasos to the contender.
    fn ratio(&self, who: Who, phase: Phase) -> Option<f64> {
        let petasos = self.turns(who.base(), phase)?;
        let others = self.turns(who, phase)?;
        let ratios = petasos.values.iter().zip(&others.values).map(|(one, other)| one / other);
        median(ratios.filter(|ratio| ratio.is_finite()))
    }
}

impl Turns {
    fn median(&self) -> Option<f64> {
        median(self.values.iter().copied().filter(|value| value.is_finite()))
    }
}

/// Measures, and publishes the table and, with `--figure`, the figure.
pub fn run(args: &RpcArgs) -> Result<(), BenchError> {
    let measured = measure(args)?;
    let outcome = Outcome::new(args, &measured);
    if let Some(path) = args.figure.as_deref() {
        draw(path, &outcome)?;
    }
    let to = (args.json.as_deref(), args.print_json);
    publish::publish(to, &outcome.json(), || outcome.print())
}

fn measure(args: &RpcArgs) -> Result<Measured, BenchError> {
    let mut stage = Stage::new(args)?;
    let phases = args.phases();
    let mut measured = Measured { phases, entries: Vec::new(), left_out: Vec::new() };
    for who in Who::everybody() {
        let mut phases = measured.phases.iter().filter(|phase| who.takes_part(args, **phase));
        // They are started before the measurement.
        let placed =
            phases.try_for_each(|phase| stage.place(args, who.contender(*phase)).map(drop));
        match placed {
            Ok(()) => {
                let turns = measured.phases.iter().map(|_| Turns::default()).collect();
                measured.entries.push(Entry { who, turns });
            }
            Err(error) => measured.leave_out(who, &error)?,
        }
    }
    let goal = args.rounds(measured.entries.len() * measured.phases.len());
    let mut progress = Progress::new("rpc", goal as u64);
    // The first round does not count: it opens connections and touches memory.
    for round in 0..=goal {
        measured.round(args, &mut stage, round > 0)?;
        progress.set(round as u64);
    }
    progress.finish("done");
    Ok(measured)
}

impl Measured {
    fn round(&mut self, args: &RpcArgs, stage: &mut Stage, counts: bool) -> Result<(), BenchError> {
        let mut failed = Vec::new();
        for (at, phase) in self.phases.iter().enumerate() {
            for entry in &mut self.entries {
                let is_out = failed.iter().any(|(who, _)| *who == entry.who);
                if is_out || !entry.who.takes_part(args, *phase) {
                    continue;
                }
                let place = stage.place(args, entry.who.contender(*phase));
                match place.and_then(|place| stage.turn(place, *phase, TURN)) {
                    Ok(turn) if counts => {
                        let value = value(args, quantity(args, *phase), &turn);
                        entry.turns[at].values.push(value);
                        entry.turns[at].total.add(&turn);
                    }
                    Ok(_) => {}
                    Err(error) => failed.push((entry.who, error)),
                }
            }
        }
        for (who, error) in failed {
            self.entries.retain(|entry| entry.who != who);
            self.leave_out(who, &error)?;
        }
        Ok(())
    }

    /// Continues without one contender. Without Petasos, this is an error.
    fn leave_out(&mut self, who: Who, error: &BenchError) -> Result<(), BenchError> {
        let (name, reason) = (who.name(), error.to_string());
        eprintln!("petasos bench: {name} is left out: {reason}");
        if who == Who::Petasos {
            return Err(reason.into());
        }
        self.left_out.push(LeftOut { name, reason });
        Ok(())
    }
}

/// Writes the figure as SVG, and as PNG next to it.
fn draw(path: &Path, outcome: &Outcome<'_>) -> Result<(), BenchError> {
    petasos_report::write_atomically(path, outcome.figure().as_bytes())?;
    super::program::draw_png(path)
}
