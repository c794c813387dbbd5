//! How servers join groups of workers.

use std::collections::BTreeMap;
use std::ffi::c_char;

use petasos::{AtRouter, Join, Status};

use crate::failure::{PETASOS_END, PETASOS_OK, PETASOS_PENDING, petasos_code};
use crate::listed;
use crate::pointer;

/// How a server joins a group of workers: the group's routers give it calls. Zeros in all fields
/// but `struct_bytes` are the defaults; the target is required. Since version 3.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct petasos_join_options {
    /// `sizeof(petasos_join_options)`: later versions may have more fields.
    pub struct_bytes: usize,
    /// The group's routers: `router://HOST:PORT[,HOST:PORT…]`, at most 8, or the list of these in
    /// etcd, `router+etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, as of petasos_channel_open.
    pub target: *const c_char,
    /// How many requests each loop takes at a time from each router, at most 4095; 0 means 16. The
    /// router's policy may give fewer.
    pub bound: u16,
    /// The part of the requests that each loop gets, in percent of what a worker of full weight
    /// gets, at most 100; 0 means 100.
    pub weight: u16,
    /// Joins as primary, for calls that are routed to that one.
    pub is_primary: bool,
}

impl pointer::Options for petasos_join_options {
    const EARLIER_BYTES: &'static [usize] = &[];
}

/// The groups that a program joins. `plaintext` allows that with an etcd beyond this host.
///
/// # Errors
/// The options are invalid: the program's fault.
///
/// # Safety
/// `count` valid options are at `joins`.
pub(crate) unsafe fn all(
    joins: *const *const petasos_join_options,
    count: usize,
    plaintext: bool,
) -> Result<Vec<Join>, Status> {
    if count > 0 && joins.is_null() {
        return Err(pointer::null("the groups"));
    }
    let mut all = Vec::new();
    for at in 0..count {
        // SAFETY: the caller's promise.
        let options = unsafe { pointer::options(*joins.add(at))? };
        let options = options.ok_or_else(|| pointer::null("the options of a group"))?;
        // SAFETY: the caller's promise.
        let target = unsafe { pointer::text(options.target, "the group")? };
        let mut join = match listed::is_target(target) {
            true => listed::join(target, plaintext)?,
            false => Join::new(target),
        };
        if options.bound > 0 {
            join = join.bound(options.bound);
        }
        if options.weight > 0 {
            join = join.weight(options.weight);
        }
        if options.is_primary {
            join = join.primary();
        }
        all.push(join);
    }
    Ok(all)
}

/// Whether a server is a member at a router, counted from 0 in the order of their addresses, by
/// what its loops have at their routers.
///
/// # Errors
/// The router cannot be reached, or refuses.
pub(crate) fn state(at: Vec<AtRouter>, router_index: usize) -> Result<petasos_code, Status> {
    let mut routers = BTreeMap::<_, Vec<AtRouter>>::new();
    for at in at {
        routers.entry(at.router).or_default().push(at);
    }
    let Some((router, loops)) = routers.iter().nth(router_index) else { return Ok(PETASOS_END) };
    let mut outside = loops.iter().filter(|at| !at.is_member).peekable();
    if outside.peek().is_none() {
        return Ok(PETASOS_OK);
    }
    match outside.find_map(|at| at.failure.as_ref()) {
        Some(failure) => Err(Status::unavailable(format!("router {router}: {failure}"))),
        None => Ok(PETASOS_PENDING),
    }
}
