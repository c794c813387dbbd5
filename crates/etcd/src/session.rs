//! Calls to etcd as its user: a token for the password, and explanations of refusals.
//!
//! A token expires after some time, when the user changes, or when etcd restarts. So after any
//! failure, callers begin a new session, which gets a new token.

use petasos::intercept::{CallInfo, Step};
use petasos::{Channel, Code, Interceptor, Metadata, Msg, Request, Status};

use super::api::{AuthClient, AuthenticateRequest};
use super::options::User;
use super::source::{PATIENCE, Source, over};

/// The metadata key of the token, as etcd's own clients name it.
const TOKEN: &str = "token";
/// The longest token that is accepted, in bytes. etcd's signed tokens have some hundreds.
const TOKEN_BYTES_MAX: usize = 4096;

/// Sends a token with each call.
struct Token(String);

impl Token {
    /// `None` if the token cannot be sent as metadata, so that a bad answer does not make later
    /// calls fail.
    fn new(text: &str) -> Option<Token> {
        let is_one = !text.is_empty()
            && text.len() <= TOKEN_BYTES_MAX
            && text.bytes().all(|byte| byte.is_ascii_graphic())
            && Metadata::default().append(TOKEN, text).is_ok();
        is_one.then(|| Token(text.to_owned()))
    }
}

impl Interceptor for Token {
    fn call<'a>(&'a self, call: &'a mut CallInfo) -> Step<'a> {
        match call.metadata_mut().append(TOKEN, &self.0) {
            Ok(()) => Step::Continue,
            Err(error) => Step::Refuse(over(&error.to_string())),
        }
    }
}

impl Source {
    /// A channel to etcd whose calls are the user's, if there is one. Needs the context of a Tokio
    /// runtime.
    pub(crate) async fn session(&self) -> Result<Channel, Status> {
        let channel = self.connect().map_err(|error| over(&error.to_string()))?;
        let Some(user) = &self.options.user else { return Ok(channel) };
        Ok(match authenticate(&channel, user).await? {
            Some(token) => channel.intercept(token),
            None => channel,
        })
    }

    /// Explains a failure to the person who has to fix it.
    pub(crate) fn explain(&self, status: Status) -> Status {
        explain(status, self.options.user.as_ref().map(|user| &*user.name), &self.prefix)
    }
}

/// The user's token; `None` if this etcd has no users.
async fn authenticate(channel: &Channel, user: &User) -> Result<Option<Token>, Status> {
    let mut ask: Msg<AuthenticateRequest> = AuthenticateRequest::new();
    ask.edit().set_name(&*user.name).set_password(&*user.password);
    let asked = AuthClient::new(channel.clone())
        .authenticate(Request::new(ask).with_timeout(PATIENCE))
        .await;
    match asked {
        Ok(answer) => Token::new(answer.token()).map(Some).ok_or_else(|| over("it has no token")),
        Err(status) if status.message().contains("authentication is not enabled") => {
            tracing::warn!(user = &*user.name, "etcd has no users: calls carry no token");
            Ok(None)
        }
        Err(status) => Err(status),
    }
}

fn explain(status: Status, user: Option<&str>, prefix: &str) -> Status {
    let message = status.message();
    let user = user.unwrap_or_default();
    if message.contains("invalid user ID or password") {
        let what = format!("etcd: there is no user `{user}`, or the password is wrong");
        return Status::new(Code::Unauthenticated, what);
    }
    if message.contains("user name is empty") {
        let what = "etcd wants a user and a password: see `EtcdOptions::user`";
        return Status::new(Code::Unauthenticated, what);
    }
    if message.contains("etcdserver: permission denied") {
        let what = format!("etcd: user `{user}` has no permission for `{prefix}`");
        return Status::new(Code::PermissionDenied, what);
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_tokens_are_refused() {
        assert!(Token::new("MlkRwEkZXMHGrSWI.9").is_some());
        let long = "x".repeat(TOKEN_BYTES_MAX + 1);
        for text in ["", "two words", "line\r\nother: x", "é", "\0", &long] {
            assert!(Token::new(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn refusals_say_what_to_mend() {
        let told = |code, message: &str| {
            explain(Status::new(code, message.to_owned()), Some("guide"), "a/")
        };
        let failed = "etcdserver: authentication failed, invalid user ID or password";
        let wrong = told(Code::InvalidArgument, failed);
        assert_eq!(wrong.code(), Code::Unauthenticated);
        assert!(wrong.message().contains("`guide`"), "{wrong}");
        let empty = told(Code::InvalidArgument, "etcdserver: user name is empty");
        assert_eq!(empty.code(), Code::Unauthenticated);
        let denied = told(Code::PermissionDenied, "etcdserver: permission denied");
        assert!(denied.message().contains("`a/`"), "{denied}");
        let other = told(Code::Unavailable, "etcdserver: no leader");
        assert_eq!((other.code(), other.message()), (Code::Unavailable, "etcdserver: no leader"));
    }
}
