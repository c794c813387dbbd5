//! Changes that can be undone for a while after they were made: what a plan for several hosts
//! needs, which fails at one of them when others have changed already.
//!
//! # Invariants
//! - The steps that undo a change are as of right after it. So any other change makes that
//!   impossible, and what is kept is dropped.
//! - A chain of changes, each of which follows the one before, is undone from its end. If a change
//!   cannot be undone in all, those before it stay: their steps are as of right before it.
//! - Chains have numbers that are chosen at random, by clients or here: none means another change
//!   of another process.

use std::time::Duration;

use petasos_admin as proto;
use petasos_base::{Time, random_seed};
use petasos_engine::Application as Number;

use super::change::{Changed, Changer, When, change};
use super::ready::Ready;
use super::undo::Undo;
use super::{ChangeFailed, Control, StepError, World};

/// The longest that a change can be undone.
const UNDO_MAX: Duration = Duration::from_secs(3600);
/// The most changes of a chain.
const CHAIN_MAX: usize = 64;

/// The latest changes, if they can be undone.
pub struct Kept {
    /// Names the chain.
    id: u64,
    changes: Vec<KeptChange>,
    until: Time,
}

/// A change that can be undone.
struct KeptChange {
    undo: Vec<Undo>,
    /// Applications with this number and greater ones have attached since.
    next: Number,
}

/// Whether and how long a change is to be undone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// For so long; not at all if it is zero.
    pub within: Duration,
    /// The chain that it is of, if its client has chosen one.
    pub chain: Option<u64>,
    /// So many changes of the chain come before it.
    pub before: usize,
}

/// What undoing has led to.
pub struct Undone {
    /// Changes of the chain that are left.
    pub left: usize,
    /// What could not be undone.
    pub not_undone: Vec<String>,
}

impl World<'_> {
    /// Does the steps of a plan, or none of them. Gives what each has done, and the chain that the
    /// change is of, if it can be undone.
    ///
    /// # Errors
    /// See [`ChangeFailed`].
    pub fn change(
        &mut self,
        steps: &[proto::Step],
        ready: Vec<Ready>,
        keep: Keep,
    ) -> Result<(Vec<String>, Option<u64>), ChangeFailed> {
        if self.control.is_handing_over {
            return Err(ChangeFailed::before(steps.len(), StepError::HandingOver));
        }
        self.control.forget_kept(self.first.now());
        self.check(keep).map_err(|error| ChangeFailed::before(steps.len(), error))?;
        let Changed { done, undo } = change(self, steps, ready)?;
        // Whatever does not go on with it makes it impossible to undo what was kept.
        let before = self.control.kept.take().filter(|_| keep.before > 0);
        let id = undo.filter(|_| !keep.within.is_zero()).map(|undo| {
            let mut kept = before.unwrap_or_else(|| Kept::new(keep.chain));
            kept.changes.push(KeptChange { undo, next: self.first.hub.next_number() });
            kept.until = self.first.now() + keep.within;
            self.control.kept.insert(kept).id
        });
        self.control.forget_unused();
        Ok((done, id))
    }

    /// Whether a change can go on with the chain that it names.
    fn check(&self, keep: Keep) -> Result<(), StepError> {
        let chain = match keep.chain {
            Some(chain) if keep.before > 0 => chain,
            _ => return Ok(()),
        };
        match &self.control.kept {
            _ if keep.before >= CHAIN_MAX => Err(StepError::ChainTooLong),
            Some(kept) if (kept.id, kept.changes.len()) == (chain, keep.before) => Ok(()),
            _ => Err(StepError::NotKept(chain)),
        }
    }

    /// Undoes the last change of a chain.
    ///
    /// # Errors
    /// [`StepError::NotKept`]: it cannot be undone any more. [`StepError::HandedOver`].
    pub fn undo_change(&mut self, id: u64) -> Result<Undone, StepError> {
        if self.control.is_handing_over {
            return Err(StepError::HandedOver);
        }
        self.control.forget_kept(self.first.now());
        let mut kept =
            self.control.kept.take_if(|kept| kept.id == id).ok_or(StepError::NotKept(id))?;
        let KeptChange { undo, next } = kept.changes.pop().expect("a chain has changes");
        let mut changer = Changer::look(self);
        let reversed = undo.into_iter().rev();
        let mut not_undone: Vec<String> =
            reversed.filter_map(|undo| changer.reverse(undo, When::Later)).collect();
        // Applications that have attached since have engines of rules that are gone. Others keep
        // what operators have made of theirs.
        not_undone.extend(changer.conform_from(next).err().map(|error| error.to_string()));
        let plugins_left = std::mem::take(&mut changer.left);
        drop(changer);
        match (kept.changes.len(), not_undone.is_empty()) {
            (0, _) => {}
            (_, true) => self.control.kept = Some(kept),
            (left, false) => {
                not_undone.push(format!("{left} changes before it: they stay as they are"));
            }
        }
        self.control.forget_unused();
        self.control.remember_left(plugins_left);
        let left = self.control.kept.as_ref().map_or(0, |kept| kept.changes.len());
        Ok(Undone { left, not_undone })
    }
}

impl Control {
    /// Drops what can no longer be undone.
    pub fn forget_kept(&mut self, now: Time) {
        if self.kept.take_if(|kept| now >= kept.until).is_some() {
            self.forget_unused();
        }
    }
}

impl Kept {
    fn new(id: Option<u64>) -> Kept {
        // 0 is none.
        let id = id.unwrap_or_else(|| random_seed().max(1));
        Kept { id, changes: Vec::new(), until: Time::ZERO }
    }
}

impl Keep {
    /// What a request says.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    pub fn of(request: &proto::ChangeRequest) -> Result<Keep, String> {
        let within = Duration::from_secs(request.undo_within_s().into());
        if within > UNDO_MAX {
            return Err(format!("a change can be undone for {} s at most", UNDO_MAX.as_secs()));
        }
        let chain = Some(request.chain()).filter(|id| *id > 0);
        let before = request.changes_before() as usize;
        let cannot = request.steps().iter().any(|step| {
            use proto::step::What::{MoveApplication, RemoveRuntime};
            matches!(step.what(), Some(MoveApplication(_) | RemoveRuntime(_)))
        });
        if chain.is_some() && within.is_zero() {
            return Err("a change of a chain has to say how long it can be undone".into());
        }
        if chain.is_none() && before > 0 {
            return Err("a change that follows others has to name their chain".into());
        }
        match cannot && !within.is_zero() {
            true => Err("that applications move cannot be undone: make such steps a change of \
                         their own"
                .to_owned()),
            false => Ok(Keep { within, chain, before }),
        }
    }
}
