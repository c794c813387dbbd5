//! What a checker must know of a service: which answers fit which states.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::evidence::Mention;

/// A service that does one call after the other.
///
/// The state is changed in place and changed back, so that large ones need no copies.
pub trait Model {
    /// A call, with its answer if that is known.
    type Call;
    /// What calls find, and change.
    type State;
    /// How to take a step back.
    type Undo;

    /// The state before the first call.
    fn start(&self) -> Self::State;

    /// Does a call at a time that is not after `until`. None if its answer does not fit the state,
    /// which is then unchanged. A call whose outcome is unknown fits if it can have an effect.
    fn apply(
        &self,
        state: &mut Self::State,
        call: &Self::Call,
        until: u64,
    ) -> Option<Step<Self::Undo>>;

    /// Whether a call, with its answer, changes nothing in any state that it fits: then it can be
    /// done wherever it fits first.
    fn is_read(&self, call: &Self::Call) -> bool;

    /// Whether a call with an unknown outcome stands for something that may happen any number of
    /// times.
    fn repeats(&self, _call: &Self::Call) -> bool {
        false
    }

    /// Takes the last step that was not taken back.
    fn undo(&self, state: &mut Self::State, undo: Self::Undo);

    /// A number for all that later steps depend on ([`digest`]).
    fn digest(&self, state: &Self::State) -> u128;

    /// The state, for people.
    fn describe(&self, state: &Self::State) -> String;
}

/// What [`Model::apply`] has done.
#[derive(Debug)]
pub struct Step<Undo> {
    /// How to take it back.
    pub undo: Undo,
    /// Whether it has changed anything.
    pub changes: bool,
}

/// A call in time.
#[derive(Clone, Debug)]
pub struct Timed<Call> {
    /// What the history says of it.
    pub mention: Mention,
    /// When it began.
    pub called_at: u64,
    /// When it ended. None if its outcome is unknown: it may happen at any later time, or never.
    pub ended_at: Option<u64>,
    /// What it is.
    pub call: Call,
}

/// Calls that depend on each other, and on no others.
#[derive(Debug)]
pub struct Part<M: Model> {
    /// How they behave.
    pub model: M,
    /// The calls.
    pub calls: Vec<Timed<M::Call>>,
}

/// 128 bits of two hashes. A checker takes states with the same digest for the same state; in a
/// search of 10^9 states, that is wrong with a probability of about 10^-21.
pub fn digest<T: Hash + ?Sized>(value: &T) -> u128 {
    let half = |which: u64| {
        let mut hasher = DefaultHasher::new();
        which.hash(&mut hasher);
        value.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}
