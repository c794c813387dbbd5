//! How etcd is reached, and as which user.

use core::fmt;
use std::sync::Arc;

use petasos::grpc::{ClientTls, PemFiles, TlsError};

/// Why the options in the environment are unusable. The operator's fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// Certificates or keys are unusable.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// `ETCDCTL_USER` names a user without a password.
    #[error("ETCDCTL_USER has no password: give USER:PASSWORD, or ETCDCTL_PASSWORD beside it")]
    NoPassword,
}

/// A user of etcd. Its `Debug` output does not contain the password.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: Arc<str>,
    pub(crate) password: Arc<str>,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How etcd is reached: TLS, user, and consent to plaintext.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use petasos::grpc::{ClientTls, PemFiles};
/// use petasos_etcd::EtcdOptions;
///
/// let files = PemFiles { authorities: Some("etcd-ca.pem".into()), ..PemFiles::default() };
/// let etcd = EtcdOptions::new().tls(ClientTls::from_files(files)?).user("guide", "secret");
/// let channel = etcd.channel("etcds://etcd.internal:2379/services/guide")?.connect_lazily()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing before they are used"]
pub struct EtcdOptions {
    pub(crate) tls: Option<ClientTls>,
    pub(crate) user: Option<User>,
    pub(crate) plaintext: bool,
}

impl EtcdOptions {
    /// No TLS, no user, and no plaintext beyond this host.
    pub fn new() -> EtcdOptions {
        EtcdOptions::default()
    }

    /// Reads etcdctl's variables: `ETCDCTL_CACERT`, `ETCDCTL_CERT` and `ETCDCTL_KEY` name PEM
    /// files; `ETCDCTL_USER` is `USER:PASSWORD`, or a user whose password is in `ETCDCTL_PASSWORD`.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn from_env() -> Result<EtcdOptions, OptionsError> {
        EtcdOptions::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<EtcdOptions, OptionsError> {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let mut options = EtcdOptions::new();
        let file = |name| variable(name).map(Into::into);
        let (authorities, certificate) = (file("ETCDCTL_CACERT"), file("ETCDCTL_CERT"));
        let files = PemFiles { certificate, key: file("ETCDCTL_KEY"), authorities };
        if files.authorities.is_some() || files.certificate.is_some() || files.key.is_some() {
            options = options.tls(ClientTls::from_files(files)?);
        }
        let Some(user) = variable("ETCDCTL_USER") else { return Ok(options) };
        match (variable("ETCDCTL_PASSWORD"), user.split_once(':')) {
            (Some(password), _) => Ok(options.user(&user, &password)),
            (None, Some((name, password))) => Ok(options.user(name, password)),
            (None, None) => Err(OptionsError::NoPassword),
        }
    }

    /// Sets TLS for `etcds://`: the authority that signs etcd's certificate, and a client
    /// certificate if etcd requires one.
    pub fn tls(mut self, tls: ClientTls) -> EtcdOptions {
        self.tls = Some(tls);
        self
    }

    /// Authenticates as this user of etcd. If authentication is not enabled in etcd, calls go
    /// without a user.
    pub fn user(mut self, name: &str, password: &str) -> EtcdOptions {
        self.user = Some(User { name: name.into(), password: password.into() });
        self
    }

    /// Allows plaintext (`etcd://`) beyond this host. Anyone on the network can then read the
    /// password and answer in etcd's place.
    pub fn plaintext(mut self) -> EtcdOptions {
        self.plaintext = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<EtcdOptions, OptionsError> {
        EtcdOptions::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn users_come_from_etcdctls_variables() {
        let user = |variables: &[_]| {
            let user = of(variables).expect("they can be used").user.expect("there is a user");
            (user.name.to_string(), user.password.to_string())
        };
        let both = |name: &str, password: &str| (name.to_owned(), password.to_owned());
        assert_eq!(user(&[("ETCDCTL_USER", "me:a:b")]), both("me", "a:b"));
        assert_eq!(user(&[("ETCDCTL_USER", "me"), ("ETCDCTL_PASSWORD", "x")]), both("me", "x"));
        assert!(matches!(of(&[("ETCDCTL_USER", "me")]), Err(OptionsError::NoPassword)));
        assert!(of(&[("ETCDCTL_USER", "")]).expect("there is none").user.is_none());
    }

    #[test]
    fn files_that_cannot_be_read_are_errors() {
        let missing = of(&[("ETCDCTL_CACERT", "/no/such/file")]).expect_err("it is not there");
        assert!(missing.to_string().contains("/no/such/file"), "{missing}");
        // A key alone is no credential.
        assert!(of(&[("ETCDCTL_KEY", "/no/such/file")]).is_err());
    }

    #[test]
    fn passwords_are_not_printed() {
        let printed = format!("{:?}", EtcdOptions::new().user("guide", "sesame"));
        assert!(printed.contains("guide") && !printed.contains("sesame"), "{printed}");
    }
}
