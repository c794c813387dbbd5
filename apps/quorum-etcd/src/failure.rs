//! Errors in etcd's words and codes: clients compare them.

use petasos::{Code, Status};
use petasos_quorum::client::ClientError;
use petasos_quorum::etcd::Refusal;
use petasos_quorum::reply;

fn etcd(code: Code, what: &str) -> Status {
    Status::new(code, format!("etcdserver: {what}"))
}

/// Why the store has not done it.
pub(crate) fn of_refusal(refusal: Refusal) -> Status {
    let code = match refusal {
        Refusal::Compacted | Refusal::FutureRevision | Refusal::TtlTooLarge => Code::OutOfRange,
        Refusal::NoSpace => Code::ResourceExhausted,
        Refusal::KeyNotFound | Refusal::TooLarge => Code::InvalidArgument,
        Refusal::LeaseNotFound => Code::NotFound,
        Refusal::LeaseExists => Code::FailedPrecondition,
    };
    etcd(code, &refusal.to_string())
}

/// Why there is no answer.
pub(crate) fn of_client(error: &ClientError) -> Status {
    match error {
        ClientError::Unavailable => etcd(Code::Unavailable, "no leader"),
        // etcd says the same of what may have been done.
        ClientError::Unknown => etcd(Code::Unavailable, "request timed out"),
        ClientError::Refused(reply::Status::Full | reply::Status::NoRoom) => {
            of_refusal(Refusal::NoSpace)
        }
        ClientError::Refused(reply::Status::Busy) => busy(),
        ClientError::Refused(reply::Status::Malformed) => {
            etcd(Code::FailedPrecondition, "the group keeps no store of etcd's model")
        }
        error => Status::internal(error.to_string()),
    }
}

/// Why members have not changed.
pub(crate) fn of_member(error: &ClientError) -> Status {
    match error {
        ClientError::NotAllowed(why) => etcd(Code::FailedPrecondition, why),
        error => of_client(error),
    }
}

pub(crate) fn busy() -> Status {
    etcd(Code::ResourceExhausted, "too many requests")
}

/// The group has answered with bytes that are no answer, or was about to be asked with such.
pub(crate) fn malformed() -> Status {
    etcd(Code::InvalidArgument, "request is too large")
}

pub(crate) fn empty_key() -> Status {
    etcd(Code::InvalidArgument, "key is not provided")
}

pub(crate) fn value_provided() -> Status {
    etcd(Code::InvalidArgument, "value is provided")
}

pub(crate) fn lease_provided() -> Status {
    etcd(Code::InvalidArgument, "lease is provided")
}

pub(crate) fn too_many_operations() -> Status {
    etcd(Code::InvalidArgument, "too many operations in txn request")
}

pub(crate) fn duplicate_key() -> Status {
    etcd(Code::InvalidArgument, "duplicate key given in txn request")
}

pub(crate) fn invalid_sort() -> Status {
    etcd(Code::InvalidArgument, "invalid sort option")
}

pub(crate) fn too_large() -> Status {
    etcd(Code::InvalidArgument, "request is too large")
}

pub(crate) fn no_member() -> Status {
    etcd(Code::NotFound, "member not found")
}

pub(crate) fn not_here(what: &str) -> Status {
    Status::unimplemented(format!("petasos: {what}"))
}
