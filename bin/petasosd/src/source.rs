//! Where the configuration is.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use petasos_etcd::{EtcdOptions, Key};
use tokio::time::timeout;

use crate::policies::read_text;

/// How long etcd may take.
const ETCD_MAX: Duration = Duration::from_secs(15);

/// Where a configuration is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A key in etcd, by its target.
    Etcd(String),
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Source, Infallible> {
        let is_etcd = ["etcd://", "etcds://"].iter().any(|scheme| text.starts_with(scheme));
        let file = || Source::File(text.into());
        Ok(if is_etcd { Source::Etcd(text.to_owned()) } else { file() })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Etcd(target) => f.write_str(target),
        }
    }
}

impl Source {
    /// What is there. Waits for etcd, in a thread without a runtime. With `plaintext`, etcd may be
    /// reached unencrypted beyond this host.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn read(&self, plaintext: bool) -> Result<String, String> {
        match self {
            Source::File(path) => read_text(path),
            Source::Etcd(_) => {
                let text = self.read_etcd(plaintext);
                text.map_err(|wrong| format!("cannot read {self}: {wrong}"))
            }
        }
    }

    /// The key, if it is one of etcd.
    ///
    /// # Errors
    /// A text that says what is wrong with the target or the environment.
    pub fn key(&self, plaintext: bool) -> Result<Option<Key>, String> {
        let Source::Etcd(target) = self else { return Ok(None) };
        let mut options = EtcdOptions::from_env().map_err(|error| error.to_string())?;
        if plaintext {
            options = options.plaintext();
        }
        options.key(target).map(Some).map_err(|error| error.to_string())
    }

    fn read_etcd(&self, plaintext: bool) -> Result<String, String> {
        let key = self.key(plaintext)?.expect("the caller has looked");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let read = runtime.block_on(async { timeout(ETCD_MAX, key.get()).await });
        let late = |_| format!("etcd does not answer within {} s", ETCD_MAX.as_secs());
        let value = read.map_err(late)?.map_err(|status| status.message().to_owned())?;
        text(value)
    }
}

/// The text of a value.
///
/// # Errors
/// There is none.
pub fn text(value: Option<Vec<u8>>) -> Result<String, String> {
    let value = value.ok_or("there is no such key")?;
    String::from_utf8(value).map_err(|_| "its value is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_etcd_are_told_from_files() {
        let of = |text: &str| text.parse::<Source>().expect("any text is one");
        assert_eq!(of("etcd://h:1/k"), Source::Etcd("etcd://h:1/k".to_owned()));
        assert_eq!(of("etcds://h:1/k"), Source::Etcd("etcds://h:1/k".to_owned()));
        assert_eq!(of("etcd:/x"), Source::File("etcd:/x".into()));
        assert_eq!(of("/etc/x.toml").to_string(), "/etc/x.toml");
        let wrong = of("etcd://h:1").read(false).expect_err("it has no key");
        assert!(wrong.starts_with("cannot read etcd://h:1: "), "{wrong}");
    }

    #[test]
    fn a_value_is_a_text() {
        assert_eq!(text(Some(b"a".to_vec())), Ok("a".to_owned()));
        assert!(text(None).is_err() && text(Some(vec![0xff])).is_err());
    }
}
