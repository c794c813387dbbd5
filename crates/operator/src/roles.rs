//! Who may do what: by the user of the process that calls.
//!
//! Root and the user of the service are operators. A list of users and groups may look. Nobody else
//! may do anything: applications have no rights here.

use petasos::grpc::Process;

use crate::account::Account;

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

/// Knows who may do what.
pub struct Roles {
    own: u32,
    viewers: Vec<Account>,
}

impl Roles {
    /// With these viewers.
    pub fn new(viewers: Vec<Account>) -> Roles {
        Roles { own: rustix::process::geteuid().as_raw(), viewers }
    }

    /// What a process may do.
    pub fn of(&self, process: Process) -> Role {
        let may_look = |viewer: &Account| viewer.has(process.uid, process.gid);
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
    }
}
