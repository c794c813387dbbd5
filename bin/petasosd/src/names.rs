//! Who may attach under which name, and whose word is believed about who calls (ADR 21).
//!
//! An application says its name itself. The operator may list names with the accounts whose
//! processes may have them: such a name is *proved*. Policies at the other end of a call see it as
//! the caller's identity, on this host and, over a session that proves the service's name, on hosts
//! that believe this service.
//!
//! Between hosts the name goes along as metadata. Applications can neither send nor see it: what
//! they say under this key is removed.

use petasos::Metadata;
use petasos_attach::Credentials;
use petasos_attach::hello::Name;
use petasos_operator::Account;
pub use petasos_service::CALLER_KEY;

/// `NAME=uid:N` or `NAME=gid:N`.
pub fn parse_name(text: &str) -> Result<(String, Account), String> {
    let (name, account) = text.split_once('=').ok_or("give NAME=uid:N or NAME=gid:N")?;
    check_name(name)?;
    Ok((name.to_owned(), account.parse()?))
}

/// Whether something can be called so.
///
/// # Errors
/// What a name is.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let form = "a name has 1 to 64 of the characters A-Z a-z 0-9 . _ - /";
    Name::is_valid(name).then_some(()).ok_or(form)
}

/// What is known of the name that a process has given itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// Anybody may have it.
    Unproved,
    /// It is listed, with this process's account.
    Proved,
    /// It is listed, and not for this process.
    Forbidden,
}

/// Names that are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<(String, Account)>);

impl Names {
    pub fn new(listed: Vec<(String, Account)>) -> Names {
        Names(listed)
    }

    /// Whether a process may have a name.
    pub fn judge(&self, name: &str, who: Credentials) -> Judged {
        let mut judged = Judged::Unproved;
        for (_, account) in self.0.iter().filter(|(listed, _)| listed == name) {
            if account.has(who.uid, who.gid) {
                return Judged::Proved;
            }
            judged = Judged::Forbidden;
        }
        judged
    }
}

/// Takes what a peer says about who calls out of the metadata of its request. To be believed only
/// if the peer is.
pub fn take_caller(metadata: &mut Metadata) -> Option<String> {
    if metadata.is_empty() {
        return None;
    }
    let said = metadata.get(CALLER_KEY).map(str::to_owned);
    // Of several, none is the one.
    let is_one = metadata.remove(CALLER_KEY) == 1;
    said.filter(|name| is_one && Name::is_valid(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn process(uid: u32, gid: u32) -> Credentials {
        Credentials { uid, gid, pid: None }
    }

    #[test]
    fn a_listed_name_is_for_its_accounts_only() {
        let listed = ["shop=uid:7", "shop=gid:50", "bank=uid:8"];
        let names = Names::new(listed.map(|text| parse_name(text).expect("it is one")).into());
        for (name, who, judged) in [
            ("shop", process(7, 1), Judged::Proved),
            ("shop", process(1, 50), Judged::Proved),
            ("shop", process(8, 8), Judged::Forbidden),
            ("shop", process(0, 0), Judged::Forbidden),
            ("bank", process(8, 8), Judged::Proved),
            ("bank", process(7, 50), Judged::Forbidden),
            ("ban", process(8, 8), Judged::Unproved),
        ] {
            assert_eq!(names.judge(name, who), judged, "{name} {who:?}");
        }
        for wrong in ["shop", "=uid:7", "a b=uid:7", "shop=7", "shop=uid:", "shop=uid:x"] {
            assert!(parse_name(wrong).is_err(), "{wrong}");
        }
        assert!(parse_name(&format!("{}=uid:1", "x".repeat(65))).is_err());
    }

    #[test]
    fn who_calls_is_taken_out_whatever_it_is() {
        let with = |values: &[&str]| {
            let mut metadata = Metadata::new();
            metadata.append("other", "stays").expect("it is well-formed");
            let append = |value: &&str| metadata.append(CALLER_KEY, value);
            values.iter().try_for_each(append).expect("they are well-formed");
            metadata
        };
        for (values, caller) in [
            (&["shop"][..], Some("shop")),
            (&[], None),
            (&["shop", "bank"], None),
            (&["shop", "shop"], None),
            (&["a shop"], None),
            (&[""], None),
        ] {
            let mut metadata = with(values);
            assert_eq!(take_caller(&mut metadata).as_deref(), caller, "{values:?}");
            assert_eq!((metadata.len(), metadata.get("other")), (1, Some("stays")));
        }
    }
}
