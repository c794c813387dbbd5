//! What can be measured.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::experiments::ExperimentId;
use super::figures::FigureId;

/// A figure that is measured in rounds, or an experiment of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Figure(FigureId),
    Experiment(ExperimentId),
}

static ALL: LazyLock<Vec<What>> = LazyLock::new(|| {
    let figures = FigureId::value_variants().iter().copied().map(What::Figure);
    let experiments = ExperimentId::value_variants().iter().copied().map(What::Experiment);
    figures.chain(experiments).collect()
});

impl ValueEnum for What {
    fn value_variants<'a>() -> &'a [What] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            What::Figure(id) => id.to_possible_value(),
            What::Experiment(id) => id.to_possible_value(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_mean_one_thing() {
        let named = |name: &str| What::from_str(name, false);
        assert_eq!(named("6a"), Ok(What::Figure(FigureId::Limit)));
        assert_eq!(named("7b"), Ok(What::Experiment(ExperimentId::Limit)));
        assert_eq!(named("7a"), Ok(What::Experiment(ExperimentId::Transport)));
        assert_eq!(named("10"), Ok(What::Figure(FigureId::GoodputOverGrpc)));
        assert_eq!(named("11"), Ok(What::Figure(FigureId::RateOverGrpc)));
        assert!(named("7").is_err());
        let names = What::value_variants().iter().filter_map(What::to_possible_value);
        let mut names: Vec<_> = names.map(|value| value.get_name().to_owned()).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
