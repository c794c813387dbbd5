//! The policies of a channel: per method, per service, and general.

use std::collections::HashMap;

use super::{MethodPolicy, Throttling};
use crate::balance::Balance;

/// The policies for the methods that a channel calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policies {
    /// The requested balancing policy. A setting of the channel's builder takes precedence.
    pub balance: Option<Balance>,
    /// When the channel stops retrying and hedging.
    pub throttling: Option<Throttling>,
    general: MethodPolicy,
    services: HashMap<String, Service>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Service {
    general: Option<MethodPolicy>,
    methods: HashMap<String, MethodPolicy>,
}

impl Policies {
    /// A builder for policies in code.
    pub fn builder() -> PoliciesBuilder {
        PoliciesBuilder { policies: Policies::default() }
    }

    /// The policy of a method: that of the method, else of its service, else the general one.
    /// `service` is the full name, as in `routeguide.RouteGuide`. Meant for binding, not for each
    /// call.
    pub fn method(&self, service: &str, method: &str) -> &MethodPolicy {
        let Some(service) = self.services.get(service) else { return &self.general };
        let own = service.methods.get(method).or(service.general.as_ref());
        own.unwrap_or(&self.general)
    }

    /// Whether there is a policy for exactly this method.
    pub fn names(&self, service: &str, method: &str) -> bool {
        let service = self.services.get(service);
        service.is_some_and(|service| service.methods.contains_key(method))
    }

    pub(super) fn set(&mut self, scope: Scope<'_>, policy: MethodPolicy) {
        match scope {
            Scope::All => self.general = policy,
            Scope::Service(name) => self.service(name).general = Some(policy),
            Scope::Method(name, method) => {
                self.service(name).methods.insert(method.to_owned(), policy);
            }
        }
    }

    fn service(&mut self, name: &str) -> &mut Service {
        self.services.entry(name.to_owned()).or_default()
    }
}

/// The methods to which a policy applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope<'a> {
    All,
    Service(&'a str),
    Method(&'a str, &'a str),
}

/// Builds [`Policies`] in code. The last setting wins.
#[derive(Clone, Debug)]
pub struct PoliciesBuilder {
    policies: Policies,
}

impl PoliciesBuilder {
    /// Sets the policy for all methods without a policy of their own or of their service.
    #[must_use]
    pub fn general(mut self, policy: MethodPolicy) -> Self {
        self.policies.set(Scope::All, policy);
        self
    }

    /// Sets the policy for all methods of `service` without a policy of their own.
    #[must_use]
    pub fn service(mut self, service: &str, policy: MethodPolicy) -> Self {
        self.policies.set(Scope::Service(service), policy);
        self
    }

    /// Sets the policy for one method.
    #[must_use]
    pub fn method(mut self, service: &str, method: &str, policy: MethodPolicy) -> Self {
        self.policies.set(Scope::Method(service, method), policy);
        self
    }

    /// Sets how calls are balanced.
    #[must_use]
    pub fn balance(mut self, balance: Balance) -> Self {
        self.policies.balance = Some(balance);
        self
    }

    /// Sets when the channel stops retrying and hedging.
    #[must_use]
    pub fn throttling(mut self, throttling: Throttling) -> Self {
        self.policies.throttling = Some(throttling);
        self
    }

    /// Builds the policies.
    pub fn build(self) -> Policies {
        self.policies
    }
}
