//! The numbers by which policies know applications, peers and methods, as a process gets them that
//! takes over from another one.
//!
//! What policies have counted they keep by these numbers. So the process that goes on with their
//! states goes on with the numbers, too: what had one has it again, and nothing else gets it.
//!
//! # Invariants
//!
//! - Numbers are taken as a whole or not at all ([`Host::inherit`](crate::Host::inherit)): no two
//!   names have one number, and each is below the one that is given next.

use std::sync::Arc;

use thiserror::Error;

use crate::numbered::{Numbered, are_sound};
use crate::peers::{CALLERS_FIRST, FIRST as CALLED_FIRST, NAMES_MAX, REST};
use crate::schemas::MethodKey;

/// The numbers that policies know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyNumbers {
    /// Of applications, by user and name.
    pub applications: Numbered<Arc<str>>,
    /// Of names that they call.
    pub called: Numbered<Arc<str>>,
    /// Of callers of other hosts.
    pub callers: Vec<(Arc<str>, u32)>,
    /// Of the methods that are bound.
    pub methods: Numbered<MethodKey>,
}

/// What is told cannot be the numbers of a process. Its fault; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the numbers of {of} are wrong: too many, twice there or out of range")]
pub struct NotNumbers {
    /// Of what.
    of: &'static str,
}

impl PolicyNumbers {
    /// Checks numbers of another process, which may have so many methods.
    pub(crate) fn check(&self, methods_max: usize) -> Result<(), NotNumbers> {
        let PolicyNumbers { applications, called, callers, methods } = self;
        let (below_called, below_rest) = (0..CALLED_FIRST, CALLED_FIRST..REST.0);
        let are_right = [
            ("applications", applications.is_sound(below_called, NAMES_MAX)),
            ("what is called", called.is_sound(below_rest, NAMES_MAX)),
            ("callers", are_sound(callers, CALLERS_FIRST..u32::MAX, NAMES_MAX)),
            ("methods", methods.is_sound(0..u32::MAX, methods_max)),
        ];
        match are_right.into_iter().find(|(_, is_right)| !is_right) {
            Some((of, _)) => Err(NotNumbers { of }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use petasos_engine::Application as Number;

    use super::*;
    use crate::{Host, SchemaLimits};

    fn name(text: &str) -> Arc<str> {
        text.into()
    }

    /// A host that applications have attached to and called from.
    fn used() -> Arc<Host> {
        let host = Host::new(SchemaLimits::default());
        for (name, user) in [("shop", Some(7)), ("cart", None), ("shop", Some(7))] {
            let number = host.next_application();
            host.policed((name, user), number);
        }
        for called in ["petasos://a:1", "petasos://b:1"] {
            host.peer(called);
        }
        host.add_caller(petasos_engine::Peer(CALLERS_FIRST), name("far"));
        host
    }

    #[test]
    fn what_had_a_number_has_it_again_and_others_get_new_ones() {
        let before = used();
        let after = Host::new(SchemaLimits::default());
        after.inherit(before.policy_numbers()).expect("they are right");
        assert_eq!(after.next_application(), Number(3));
        for called in ["petasos://b:1", "petasos://a:1", "petasos://c:1"] {
            assert_eq!(after.peer(called).1, before.peer(called).1, "{called}");
        }
        let policed = |host: &Host, name| host.policed(name, Number(9)).number;
        assert_eq!(policed(&after, ("shop", Some(7))), Number(0));
        assert_eq!(policed(&after, ("cart", None)), Number(1));
        assert_eq!(policed(&after, ("shop", Some(8))), Number(9), "another user's");
        after.with_callers(|callers| assert_eq!(callers, [(CALLERS_FIRST, name("far"))]));
    }

    #[test]
    fn what_cannot_be_numbers_of_a_process_changes_nothing() {
        let right = used().policy_numbers();
        let method = || (name("a.B/C"), [Default::default(); 2], false);
        let damages: [fn(&mut PolicyNumbers); 7] = [
            |numbers| numbers.applications.next = 1,
            |numbers| numbers.applications.next = u32::MAX,
            |numbers| numbers.called.next = 0,
            |numbers| numbers.called.known.push((name("d"), CALLED_FIRST)),
            |numbers| numbers.called.known.push((name("petasos://a:1"), CALLED_FIRST + 2)),
            |numbers| numbers.callers.push((name("near"), 7)),
            |numbers| numbers.callers.push((name("near"), u32::MAX)),
        ];
        let after = Host::new(SchemaLimits::default());
        for damage in damages {
            let mut wrong = right.clone();
            damage(&mut wrong);
            assert!(after.inherit(wrong.clone()).is_err(), "{wrong:?}");
        }
        let mut wrong = right.clone();
        wrong.methods = Numbered { known: vec![(method(), 1), (method(), 2)], next: 3 };
        assert!(after.inherit(wrong).is_err(), "a method with two numbers");
        assert_eq!(after.policy_numbers(), Host::new(SchemaLimits::default()).policy_numbers());
        assert!(after.inherit(right).is_ok());
    }
}
