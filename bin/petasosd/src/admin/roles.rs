//! Who may do what: by the user of the process that calls.
//!
//! Root and the user of the service are operators. A list of users and groups may look. Nobody else
//! may do anything: applications have no rights here.

use std::str::FromStr;

use petasos::grpc::Process;

/// What somebody may do; more, the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Nothing.
    Nobody,
    /// Look.
    Viewer,
    /// Look, and change.
    Operator,
}

impl Role {
    /// Its name in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Role::Nobody => "nobody",
            Role::Viewer => "viewer",
            Role::Operator => "operator",
        }
    }
}

/// Who may look: `uid:N` or `gid:N`. The group is the effective one of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
}

impl FromStr for Viewer {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Viewer, &'static str> {
        let form = "give it as uid:N or gid:N";
        let (what, number) = text.split_once(':').ok_or(form)?;
        let number = number.parse().map_err(|_| form)?;
        match what {
            "uid" => Ok(Viewer::User(number)),
            "gid" => Ok(Viewer::Group(number)),
            _ => Err(form),
        }
    }
}

/// Knows who may do what.
pub struct Roles {
    own: u32,
    viewers: Vec<Viewer>,
}

impl Roles {
    /// With these viewers.
    pub fn new(viewers: Vec<Viewer>) -> Roles {
        Roles { own: rustix::process::geteuid().as_raw(), viewers }
    }

    /// What a process may do.
    pub fn of(&self, process: Process) -> Role {
        let may_look = |viewer: &Viewer| match viewer {
            Viewer::User(uid) => *uid == process.uid,
            Viewer::Group(gid) => *gid == process.gid,
        };
        match process.uid {
            0 => Role::Operator,
            uid if uid == self.own => Role::Operator,
            _ if self.viewers.iter().any(may_look) => Role::Viewer,
            _ => Role::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_come_from_users_and_groups() {
        let viewers = ["uid:7", "gid:50"].map(|text| text.parse().expect("it is one")).into();
        let roles = Roles { own: 900, viewers };
        let of = |uid, gid| roles.of(Process { uid, gid, pid: None });
        assert_eq!([of(0, 0), of(900, 1)], [Role::Operator; 2]);
        assert_eq!([of(7, 1), of(8, 50)], [Role::Viewer; 2]);
        assert_eq!([of(8, 0), of(50, 7)], [Role::Nobody; 2]);
        for wrong in ["7", "user:7", "uid:", "uid:x", "gid:-1", "uid:4294967296"] {
            assert!(wrong.parse::<Viewer>().is_err(), "{wrong}");
        }
    }
}
