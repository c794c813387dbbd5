//! The experiments that are no figures of rounds, by name.

use clap::ValueEnum;

/// An experiment that is no figure of rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExperimentId {
    /// TCP that gathers instead of a system call for each piece, while calls run
    #[value(name = "7a")]
    Transport,
    /// A rate limit that is attached, opened and removed while calls run
    #[value(name = "7b")]
    Limit,
    /// Changes of policies under full load: calls lost or repeated, gaps
    Changes,
    /// The binding of a schema of 50 messages
    Bind,
    /// Tensors over a fabric, with packets that share messages and without
    #[value(name = "9")]
    Fusing,
    /// Calls one at a time beside long ones, with and without an order of small ones first
    Table4,
    /// Good applications beside ten hostile ones
    Hostile,
    /// The hotel reservation: means of each service, beside tonic with Envoys
    #[value(name = "8")]
    HotelMean,
    /// The same, 99th percentiles
    #[value(name = "12")]
    HotelTail,
    /// The hotel reservation: means of each service, beside tonic without proxies
    #[value(name = "13")]
    HotelMeanAlone,
    /// The same, 99th percentiles
    #[value(name = "14")]
    HotelTailAlone,
}

impl ExperimentId {
    /// Whether it is measured in turns, whose length the user may choose.
    pub fn has_turns(self) -> bool {
        match self {
            ExperimentId::Transport
            | ExperimentId::Limit
            | ExperimentId::Changes
            | ExperimentId::Bind => false,
            ExperimentId::Fusing
            | ExperimentId::Table4
            | ExperimentId::Hostile
            | ExperimentId::HotelMean
            | ExperimentId::HotelTail
            | ExperimentId::HotelMeanAlone
            | ExperimentId::HotelTailAlone => true,
        }
    }

    /// Whether it has points, of which the user may choose some.
    pub fn has_points(self) -> bool {
        self == ExperimentId::Fusing
    }

    /// Whether it changes policies so often as the user says.
    pub fn has_changes(self) -> bool {
        self == ExperimentId::Changes
    }

    /// Seconds to measure, unless the user says otherwise.
    pub fn seconds(self) -> f64 {
        match self {
            ExperimentId::Transport | ExperimentId::Limit => 12.0,
            // It ends with its changes.
            ExperimentId::Changes => 3600.0,
            ExperimentId::Bind => 15.0,
            ExperimentId::Fusing => 60.0,
            ExperimentId::Table4 | ExperimentId::Hostile => 20.0,
            // Of each contender, as in the paper.
            ExperimentId::HotelMean
            | ExperimentId::HotelTail
            | ExperimentId::HotelMeanAlone
            | ExperimentId::HotelTailAlone => 250.0,
        }
    }
}
