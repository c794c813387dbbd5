//! Clients of a group whose requests at the router can be told apart.

use std::collections::HashSet;

use crate::greeter::generated::GreeterClient;
use crate::servers::{Router, connect};

/// A client of its own, with its number at the router.
pub struct Caller<'a> {
    pub client: GreeterClient,
    router: &'a Router,
    number: u32,
}

impl<'a> Caller<'a> {
    pub fn attach(router: &'a Router) -> Caller<'a> {
        let numbers = || router.clients().into_iter().map(|client| client.client);
        let before: HashSet<u32> = numbers().collect();
        let client = GreeterClient::new(connect(&router.target()));
        let number = numbers().find(|number| !before.contains(number));
        Caller { client, router, number: number.expect("it is attached") }
    }

    /// Whether a call of this client waits in the router.
    pub fn waits(&self) -> bool {
        let clients = self.router.clients();
        clients.iter().any(|client| client.client == self.number && client.waiting > 0)
    }
}
