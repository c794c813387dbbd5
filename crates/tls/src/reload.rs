//! Configurations that are reloaded when their files change.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use petasos_base::{SystemClock, Time};

use crate::pem::{CredentialError, Pem, PemFiles};

/// The minimum interval between checks of the files.
const INTERVAL: Duration = Duration::from_secs(1);

/// The modification time and length of a file, for detecting changes.
type Stamp = Option<(SystemTime, u64)>;

type Make<C> = dyn Fn(&Pem) -> Result<C, CredentialError> + Send + Sync;

/// A configuration made from PEM, which is made again when the PEM files change.
pub struct Reloading<C> {
    source: Option<Source<C>>,
    loaded: Mutex<Loaded<C>>,
}

struct Source<C> {
    files: PemFiles,
    make: Box<Make<C>>,
    clock: SystemClock,
}

struct Loaded<C> {
    config: Arc<C>,
    /// The stamps of the files from before they were last read.
    stamps: [Stamp; 3],
    /// When to check the files again.
    look_at: Time,
}

impl<C> Reloading<C> {
    /// A configuration that never changes.
    pub fn fixed(config: C) -> Reloading<C> {
        let loaded = Loaded { config: Arc::new(config), stamps: [None; 3], look_at: Time::NEVER };
        Reloading { source: None, loaded: Mutex::new(loaded) }
    }

    /// Reads the files for the first time, and makes a configuration with `make`.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub fn from_files(
        files: PemFiles,
        make: impl Fn(&Pem) -> Result<C, CredentialError> + Send + Sync + 'static,
    ) -> Result<Reloading<C>, CredentialError> {
        let source = Source { files, make: Box::new(make), clock: SystemClock::default() };
        let stamps = source.stamps();
        let config = Arc::new(source.load()?);
        let loaded = Loaded { config, stamps, look_at: Time::ZERO };
        Ok(Reloading { source: Some(source), loaded: Mutex::new(loaded) })
    }

    /// The configuration for a new connection. This checks three small files at most once a second.
    /// If their new content is unusable, that is logged, and the old configuration stays in use.
    pub fn current(&self) -> Arc<C> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(source) = &self.source else { return loaded.config.clone() };
        let now = source.clock.now();
        if now < loaded.look_at {
            return loaded.config.clone();
        }
        loaded.look_at = now + INTERVAL;
        let stamps = source.stamps();
        if stamps != loaded.stamps {
            // Files that are replaced one by one match again after the last one.
            loaded.stamps = stamps;
            match source.load() {
                Ok(config) => loaded.config = Arc::new(config),
                Err(error) => tracing::warn!(%error, "changed TLS files cannot be used"),
            }
        }
        loaded.config.clone()
    }
}

impl<C> Source<C> {
    fn load(&self) -> Result<C, CredentialError> {
        (self.make)(&self.files.read()?)
    }

    fn stamps(&self) -> [Stamp; 3] {
        let files = &self.files;
        [&files.certificate, &files.key, &files.authorities].map(|path| stamp(path.as_ref()))
    }
}

fn stamp(path: Option<&PathBuf>) -> Stamp {
    let metadata = std::fs::metadata(path?).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
