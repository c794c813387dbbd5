//! Which worker a request goes to: the rule, and how many requests a worker may have.

use core::fmt;
use core::str::FromStr;

/// The most requests that a worker may have outstanding: the most that it can announce (W1).
pub const BOUND_MAX: u16 = 4095;

/// How the worker of a request is chosen, among those with a free slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Each with the same probability, or one according to its weight.
    Random,
    /// One after the other. A worker of less weight is passed over now and then.
    RoundRobin,
    /// Two at random, and of these the one with fewer outstanding requests for its weight
    /// (Mitzenmacher, "The power of two choices in randomized load balancing", 2001).
    PowerOfTwo,
    /// The one with the fewest outstanding requests for its weight; one of these at random.
    ShortestQueue,
}

/// How many requests a worker may have outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// What it announces: n, which may change at any time.
    Announced,
    /// The same, but never more than this.
    AtMost(u16),
}

/// A rule with a bound. R2P2's JSQ is the shortest queue where workers announce as much as they
/// can, and JBSQ(n) where they announce n.
///
/// Its names are `random`, `rr`, `pl2`, `jsq` or `jbsq`, and `jbsqN` with N at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How a worker is chosen.
    pub rule: Rule,
    /// How many requests a worker may have.
    pub bound: Bound,
}

impl Policy {
    /// The shortest queue, with the bounds that workers announce: R2P2's choice.
    pub const JSQ: Policy = Policy { rule: Rule::ShortestQueue, bound: Bound::Announced };

    /// Whether choices depend on how many requests workers have, apart from those with no slot.
    pub fn compares_loads(self) -> bool {
        matches!(self.rule, Rule::PowerOfTwo | Rule::ShortestQueue)
    }
}

impl Bound {
    /// The bound of a worker that announces `announced`. No policy gives it more (RT22).
    #[inline]
    pub(crate) fn of(self, announced: u16) -> u16 {
        match self {
            Bound::Announced => announced.min(BOUND_MAX),
            Bound::AtMost(bound) => announced.min(bound).min(BOUND_MAX),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.rule, self.bound) {
            (Rule::Random, _) => "random",
            (Rule::RoundRobin, _) => "rr",
            (Rule::PowerOfTwo, _) => "pl2",
            (Rule::ShortestQueue, Bound::Announced) => "jsq",
            (Rule::ShortestQueue, Bound::AtMost(bound)) => return write!(f, "jbsq{bound}"),
        };
        f.write_str(name)
    }
}

/// A name that no policy has. The user's mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no policy; there are random, rr, pl2, jsq, jbsq and jbsq1 to jbsq{BOUND_MAX}")]
pub struct UnknownPolicy {
    name: String,
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        let announced = |rule| Policy { rule, bound: Bound::Announced };
        Ok(match name {
            "random" => announced(Rule::Random),
            "rr" => announced(Rule::RoundRobin),
            "pl2" => announced(Rule::PowerOfTwo),
            "jsq" | "jbsq" => Policy::JSQ,
            name => {
                let digits = name.strip_prefix("jbsq").filter(|rest| rest.starts_with(is_digit));
                let bound = digits.and_then(|digits| digits.parse().ok());
                let bound = bound.filter(|bound| (1..=BOUND_MAX).contains(bound));
                let unknown = || UnknownPolicy { name: name.to_owned() };
                let bound = Bound::AtMost(bound.ok_or_else(unknown)?);
                Policy { rule: Rule::ShortestQueue, bound }
            }
        })
    }
}

fn is_digit(character: char) -> bool {
    character.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["random", "rr", "pl2", "jsq", "jbsq1", "jbsq4095"] {
            assert_eq!(name.parse::<Policy>().map(|policy| policy.to_string()), Ok(name.into()));
        }
        assert_eq!("jbsq".parse(), Ok(Policy::JSQ));
        for name in ["", "jbsq0", "jbsq4096", "jbsq+3", "jbsq-1", "jbsq 3", "JSQ", "jbsq99999999"] {
            let error = name.parse::<Policy>().expect_err("it is no policy").to_string();
            assert!(error.starts_with(&format!("`{name}` is no policy; there are")), "{error}");
        }
    }

    #[test]
    fn no_policy_gives_a_worker_more_than_it_announces() {
        for name in ["random", "rr", "pl2", "jsq", "jbsq3"] {
            let bound = name.parse::<Policy>().expect("it is a policy").bound;
            assert_eq!((bound.of(0), bound.of(1), bound.of(2)), (0, 1, 2), "{name}");
        }
        assert_eq!(Bound::Announced.of(u16::MAX), BOUND_MAX);
        assert_eq!((Bound::AtMost(3).of(2), Bound::AtMost(3).of(9)), (2, 3));
    }
}
