//! The path of the service, and the name and token with which this application attaches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use petasos_attach::hello::{Hello, Name, Token};

/// The environment variable that names the service's socket, as `unix:PATH`.
const SERVICE: &str = "PETASOS_SERVICE";
/// The environment variable with the application's name; the program's file name otherwise.
const APPLICATION: &str = "PETASOS_APPLICATION";
/// The environment variable with the token that the service may ask for.
const TOKEN: &str = "PETASOS_TOKEN";
/// How long the service may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How a loop reaches the managed service of its host.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    path: PathBuf,
    pub(crate) hello: Hello,
    pub(crate) timeout: Duration,
}

/// What is wrong with a [`ServiceConfig`]. The fault of whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It does not say where the service is.
    #[error("`{0}` does not name a service: expected unix:PATH")]
    Path(String),
    /// The name of the application has other characters.
    #[error("`{0}` cannot name an application: use 1 to 64 letters, digits, and `._-/`")]
    Name(String),
    /// The token is too long.
    #[error("the token has more than 64 bytes")]
    Token,
}

impl ServiceConfig {
    /// The service at `unix:PATH`, for an application that is named after its program.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn new(service: &str) -> Result<ServiceConfig, ConfigError> {
        let path = service.strip_prefix("unix:").filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| ConfigError::Path(service.to_owned()))?;
        let hello = Hello::new(&program(), 1).map_err(|_| ConfigError::Name(program()))?;
        Ok(ServiceConfig { path: path.into(), hello, timeout: TIMEOUT })
    }

    /// The service that the environment names: `PETASOS_SERVICE=unix:PATH`, and if they are there
    /// `PETASOS_APPLICATION` and `PETASOS_TOKEN`. `None` without the first.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_env() -> Result<Option<ServiceConfig>, ConfigError> {
        let read = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(service) = read(SERVICE) else { return Ok(None) };
        let mut config = ServiceConfig::new(&service.to_string_lossy())?;
        if let Some(name) = read(APPLICATION) {
            config = config.application(&name.to_string_lossy())?;
        }
        if let Some(token) = read(TOKEN) {
            config = config.token(token.as_encoded_bytes())?;
        }
        Ok(Some(config))
    }

    /// Sets the application's name.
    ///
    /// # Errors
    /// [`ConfigError::Name`].
    pub fn application(mut self, name: &str) -> Result<ServiceConfig, ConfigError> {
        let checked = Name::new(name).map_err(|_| ConfigError::Name(name.to_owned()))?;
        self.hello.name = checked;
        Ok(self)
    }

    /// Sets the token that the service may ask for.
    ///
    /// # Errors
    /// [`ConfigError::Token`].
    pub fn token(mut self, token: &[u8]) -> Result<ServiceConfig, ConfigError> {
        self.hello.token = Token::new(token).map_err(|_| ConfigError::Token)?;
        Ok(self)
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The program's file name, as far as it can name an application.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(64).collect();
    if name.is_empty() { "application".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_by_its_socket() {
        let config = ServiceConfig::new("unix:/run/petasos/petasosd.sock").expect("it is a path");
        assert_eq!(config.path(), Path::new("/run/petasos/petasosd.sock"));
        for text in ["", "unix:", "/run/petasosd.sock", "tcp:localhost:1"] {
            let error = ServiceConfig::new(text).expect_err(text);
            assert_eq!(error, ConfigError::Path(text.to_owned()));
        }
        let config = config.application("shop/cart").expect("it is a name");
        assert_eq!(config.hello.name.as_str(), "shop/cart");
        let error = config.clone().application("shop cart").expect_err("a space");
        assert_eq!(error, ConfigError::Name("shop cart".to_owned()));
        assert_eq!(config.token(&[0; 65]).expect_err("long"), ConfigError::Token);
    }
}
