//! The part of the command line that says what is searched.

use std::path::PathBuf;

use clap::Args;

use crate::corpus::{Corpus, DICTIONARIES, FOLDER};
use crate::engine::Engine;
use crate::error::Failed;

/// The most indices.
const PARTS_MAX: u64 = 256;

/// What is searched
#[derive(Args, Clone, Debug)]
pub struct CorpusArgs {
    /// The folder with dictionaries: NAME.dict.dz and NAME.index
    #[arg(long, value_name = "FOLDER", default_value = FOLDER)]
    folder: PathBuf,
    /// The dictionaries; Debian's packages dict-gcide, dict-wn and dict-jargon have these
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = DICTIONARIES)]
    dictionaries: Vec<String>,
    /// Into how many indices the entries are divided
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=PARTS_MAX))]
    parts: u64,
}

impl CorpusArgs {
    /// Reads the dictionaries.
    ///
    /// # Errors
    /// If one is missing, or is no dictionary.
    pub fn load(&self) -> Result<Corpus, Failed> {
        Ok(Corpus::load(&self.folder, &self.dictionaries)?)
    }

    /// Reads the dictionaries, and makes indices.
    ///
    /// # Errors
    /// As of [`CorpusArgs::load`], and the engine's.
    pub fn engine(&self) -> Result<Engine, Failed> {
        Ok(Engine::build(self.load()?, self.parts as usize)?)
    }
}
