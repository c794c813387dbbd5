//! Users and groups, as operators name them.

use std::str::FromStr;

/// A user, or a group: `uid:N` or `gid:N`. The group is the effective one of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
}

impl Account {
    /// Whether a process with these ids belongs to it.
    pub fn has(self, uid: u32, gid: u32) -> bool {
        match self {
            Account::User(user) => user == uid,
            Account::Group(group) => group == gid,
        }
    }
}

impl FromStr for Account {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Account, &'static str> {
        let form = "give it as uid:N or gid:N";
        let (what, number) = text.split_once(':').ok_or(form)?;
        let number = number.parse().map_err(|_| form)?;
        match what {
            "uid" => Ok(Account::User(number)),
            "gid" => Ok(Account::Group(number)),
            _ => Err(form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_a_user_or_a_group() {
        let has = |text: &str, uid, gid| text.parse::<Account>().expect("it is one").has(uid, gid);
        assert!(has("uid:7", 7, 1) && !has("uid:7", 1, 7));
        assert!(has("gid:50", 7, 50) && !has("gid:50", 50, 7));
        for wrong in ["7", "user:7", "uid:", "uid:x", "gid:-1", "uid:4294967296"] {
            assert!(wrong.parse::<Account>().is_err(), "{wrong}");
        }
    }
}
