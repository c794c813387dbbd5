//! Failures of the program.

/// What has failed, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

macro_rules! failed_by {
    ($($error:ty),+ $(,)?) => { $(
        impl From<$error> for Failed {
            fn from(error: $error) -> Failed {
                Failed(error.to_string())
            }
        }
    )+ };
}

failed_by!(
    crate::answer::Refusal,
    crate::corpus::CorpusError,
    crate::engine::EngineError,
    crate::recording::RecordingError,
    petasos::StartError,
    std::io::Error,
);
