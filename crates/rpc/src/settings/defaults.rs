//! The defaults of a channel's calls, and the settings of one call that result from them.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use petasos_call::policy::{Attempts, MethodPolicy, Policies, Throttling};
use petasos_call::{Codec, Failure, Metadata, Status};
use petasos_endpoint::Routing;

use crate::compression::ChosenCodec;
use crate::current;
use crate::descriptors::{Idempotency, MethodInfo, ServiceRef};
use crate::request::CallParts;

/// What decides how a call continues when an attempt ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryMode {
    /// Nothing: an answer is the outcome, and so is a failure unless the request has not run.
    #[default]
    Plain,
    /// The call's retry state.
    Retried,
    /// The call's retry state; the attempts are calls of their own.
    Hedged,
    /// The retry state of a hedged call, of which this call is an attempt.
    Attempt,
}

/// The defaults of a channel's calls.
#[derive(Debug, Default)]
pub struct Defaults {
    /// A call's timeout, if there is one.
    pub timeout: Option<Duration>,
    /// Whether calls wait while no server can be reached.
    pub wait_for_ready: bool,
    /// Metadata that are sent with every call.
    pub metadata: Metadata,
    /// Policies of services and methods, by name.
    pub policies: Option<Policies>,
    /// The codec for messages, if the server accepts it.
    pub codec: Codec,
}

/// [`Defaults`] of one service's methods.
pub struct ServiceDefaults {
    /// Metadata that are sent with every call.
    pub metadata: Metadata,
    /// Indexed by the method.
    methods: Vec<MethodDefaults>,
    /// The codec for messages, if the server accepts it.
    pub codec: Codec,
}

/// The defaults of one method.
#[derive(Debug)]
pub struct MethodDefaults {
    /// The policy that names the method, or the one without limits.
    pub policy: MethodPolicy,
    /// Whether the method may run more than once: its schema says so, or a policy for this method
    /// hedges it.
    pub is_idempotent: bool,
    pub retry_mode: RetryMode,
}

impl Defaults {
    /// Whether the method has no defaults.
    pub fn is_plain(&self) -> bool {
        let Defaults { timeout, wait_for_ready, metadata, policies, codec } = self;
        let has_own = timeout.is_some() || *wait_for_ready || !metadata.is_empty();
        !has_own && *codec == Codec::IDENTITY && policies.is_none()
    }

    /// The defaults of a service's methods.
    pub fn of(&self, service: &ServiceRef) -> Arc<ServiceDefaults> {
        let methods = service.methods().map(|method| self.of_method(service.name(), method));
        let methods = methods.collect();
        Arc::new(ServiceDefaults { metadata: self.metadata.clone(), methods, codec: self.codec })
    }

    fn of_method(&self, service: &str, method: MethodInfo<'_>) -> MethodDefaults {
        let policies = self.policies.as_ref();
        let policy = policies.map(|policies| policies.method(service, method.name));
        let mut policy = policy.cloned().unwrap_or_default();
        policy.timeout = policy.timeout(self.timeout);
        policy.wait_for_ready |= self.wait_for_ready;
        let is_hedged = matches!(&policy.attempts, Attempts::Hedge(it) if it.attempts_max > 1);
        // A policy that hedges a method by its name says that the method may run more than once.
        let is_named = policies.is_some_and(|policies| policies.names(service, method.name));
        let is_idempotent = method.idempotency != Idempotency::Unknown || is_hedged && is_named;
        // Every success refills the retry budget, whatever the method's own policy.
        let is_retried = self.throttling().is_some();
        let retry_mode = match &policy.attempts {
            _ if is_hedged && is_idempotent => RetryMode::Hedged,
            Attempts::Retry(retry) if retry.attempts_max > 1 => RetryMode::Retried,
            _ if is_retried => RetryMode::Retried,
            _ => RetryMode::Plain,
        };
        MethodDefaults { policy, is_idempotent, retry_mode }
    }

    /// How retries are throttled, if they are.
    pub fn throttling(&self) -> Option<Throttling> {
        self.policies.as_ref().and_then(|policies| policies.throttling)
    }
}

impl ServiceDefaults {
    /// Adds the metadata of all calls to a call's, and returns the defaults of its method.
    fn apply(&self, method: u16, metadata: &mut Metadata) -> &MethodDefaults {
        for (key, value) in self.metadata.iter() {
            let appended = metadata.append_bytes(key.as_bytes(), value);
            appended.expect("it was allowed before");
        }
        self.method(method)
    }

    /// The policy of a method.
    pub fn policy(&self, method: u16) -> &MethodPolicy {
        &self.method(method).policy
    }

    /// The defaults of a method.
    pub fn method(&self, method: u16) -> &MethodDefaults {
        &self.methods[usize::from(method)]
    }
}

/// Returns the policy of a method, by its index.
pub type PolicyOf = for<'a> fn(Option<&'a ServiceDefaults>, u16) -> &'a MethodPolicy;

static PLAIN: MethodPolicy = MethodPolicy {
    timeout: None,
    wait_for_ready: false,
    request_bytes_max: None,
    response_bytes_max: None,
    attempts: Attempts::Once,
};

/// The policy for the attempts of a method with streams. Those are not hedged.
pub fn stream_policy_of(defaults: Option<&ServiceDefaults>, method: u16) -> &MethodPolicy {
    let policy = policy_of(defaults, method);
    if matches!(policy.attempts, Attempts::Hedge(_)) { &PLAIN } else { policy }
}

/// The policy of a method.
pub fn policy_of(defaults: Option<&ServiceDefaults>, method: u16) -> &MethodPolicy {
    defaults.map_or(&PLAIN, |defaults| &defaults.method(method).policy)
}

impl fmt::Debug for ServiceDefaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceDefaults").finish_non_exhaustive()
    }
}

/// The settings of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallSettings {
    /// Its timeout, if there is one.
    pub timeout: Option<Duration>,
    /// Whether it waits while no server can be reached.
    pub wait_for_ready: bool,
    /// The codec for its messages, if the server accepts it.
    pub codec: Codec,
    /// What decides whether it is sent again.
    pub retry_mode: RetryMode,
    /// The longest response that is accepted, in bytes.
    pub response_bytes_max: Option<u32>,
    /// How it is routed, if it goes to a group.
    pub routing: Routing,
}

impl CallSettings {
    /// Combines the settings in a call's request, the time left for the call in whose handler it is
    /// made (R10), and the defaults of its method. Adds the metadata of all calls to the call's.
    ///
    /// # Errors
    /// There is no time left (R10): the call is not sent.
    pub fn resolve(
        defaults: Option<&ServiceDefaults>,
        method: u16,
        parts: &mut CallParts,
    ) -> Result<CallSettings, Status> {
        let mut settings = CallSettings {
            timeout: parts.timeout.or_else(current::time_left),
            wait_for_ready: false,
            codec: Codec::IDENTITY,
            retry_mode: RetryMode::Plain,
            response_bytes_max: None,
            routing: parts.extensions.get().copied().unwrap_or_default(),
        };
        if let Some(defaults) = defaults {
            let MethodDefaults { policy, retry_mode, is_idempotent } =
                defaults.apply(method, &mut parts.metadata);
            settings = CallSettings {
                timeout: policy.timeout(settings.timeout),
                wait_for_ready: policy.wait_for_ready,
                codec: defaults.codec,
                retry_mode: *retry_mode,
                response_bytes_max: policy.response_bytes_max,
                routing: Routing {
                    is_idempotent: settings.routing.is_idempotent || *is_idempotent,
                    ..settings.routing
                },
            };
        }
        settings.codec = ChosenCodec::or(&parts.extensions, settings.codec);
        if settings.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Failure::Timeout.status());
        }
        Ok(settings)
    }
}
