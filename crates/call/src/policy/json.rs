//! gRPC's service config: proto3's JSON mapping of `grpc.service_config.ServiceConfig`.
//!
//! The text may come from a name server, so it is not trusted. Memory is bounded by its length, and
//! nesting by serde_json's limit.

mod node;

use std::collections::HashSet;

use node::Node;

use super::config::Scope;
use super::{
    ATTEMPTS_MAX, Attempts, CodeSet, ConfigError, HedgePolicy, MethodPolicy, Policies, Problem,
    RetryPolicy, Throttling, duration,
};
use crate::Code;
use crate::balance::Balance;

impl Policies {
    /// Parses gRPC's service config. Unknown fields are ignored, as gRPC does; known ones are
    /// checked as gRFC A6 requires.
    ///
    /// # Errors
    /// The first error and its position. The text's author is at fault.
    pub fn from_json(text: &str) -> Result<Policies, ConfigError> {
        policies(text)
    }
}

fn policies(text: &str) -> Result<Policies, ConfigError> {
    let value = serde_json::from_str(text).map_err(|error| ConfigError {
        path: String::new(),
        problem: Problem::Json(error.to_string()),
    })?;
    let root = Node::root(&value);
    root.object()?;
    let mut policies = Policies::default();
    policies.balance = balance(&root)?;
    policies.throttling =
        root.field("retryThrottling").map(|node| throttling(&node)).transpose()?;
    let Some(configs) = root.field("methodConfig") else { return Ok(policies) };
    let mut seen = HashSet::new();
    for config in configs.elements()? {
        let policy = method_policy(&config)?;
        for name in names(&config)? {
            let scope = scope(&name)?;
            if !seen.insert(scope) {
                return name.wrong(Problem::Twice);
            }
            policies.set(scope, policy.clone());
        }
    }
    Ok(policies)
}

fn names<'a>(config: &Node<'a>) -> Result<Vec<Node<'a>>, ConfigError> {
    config.field("name").map_or(Ok(Vec::new()), |names| names.elements())
}

fn scope<'a>(name: &Node<'a>) -> Result<Scope<'a>, ConfigError> {
    name.object()?;
    let text = |key| name.field(key).map_or(Ok(""), |node| node.string());
    match (text("service")?, text("method")?) {
        ("", "") => Ok(Scope::All),
        ("", _) => name.wrong(Problem::MethodAlone),
        (service, "") => Ok(Scope::Service(service)),
        (service, method) => Ok(Scope::Method(service, method)),
    }
}

fn method_policy(config: &Node<'_>) -> Result<MethodPolicy, ConfigError> {
    config.object()?;
    let attempts = match (config.field("retryPolicy"), config.field("hedgingPolicy")) {
        (Some(_), Some(_)) => return config.wrong(Problem::Both),
        (Some(retry), None) => Attempts::Retry(retry_policy(&retry)?),
        (None, Some(hedge)) => Attempts::Hedge(hedge_policy(&hedge)?),
        (None, None) => Attempts::Once,
    };
    Ok(MethodPolicy {
        timeout: config.field("timeout").map(|node| duration_of(&node)).transpose()?,
        wait_for_ready: config.field("waitForReady").map_or(Ok(false), |node| node.boolean())?,
        request_bytes_max: config.field("maxRequestMessageBytes").map(|n| n.u32()).transpose()?,
        response_bytes_max: config.field("maxResponseMessageBytes").map(|n| n.u32()).transpose()?,
        attempts,
    })
}

fn retry_policy(node: &Node<'_>) -> Result<RetryPolicy, ConfigError> {
    node.object()?;
    let statuses = codes(&node.require("retryableStatusCodes")?)?;
    if statuses.is_empty() {
        return node.require("retryableStatusCodes")?.wrong(Problem::Empty);
    }
    let multiplier = node.require("backoffMultiplier")?;
    let backoff_multiplier = multiplier.number()?;
    if backoff_multiplier <= 0.0 {
        return multiplier.wrong(Problem::Range("above 0"));
    }
    Ok(RetryPolicy {
        attempts_max: attempts_max(node)?,
        backoff_initial: backoff(&node.require("initialBackoff")?)?,
        backoff_max: backoff(&node.require("maxBackoff")?)?,
        backoff_multiplier,
        statuses,
    })
}

fn hedge_policy(node: &Node<'_>) -> Result<HedgePolicy, ConfigError> {
    node.object()?;
    let delay = node.field("hedgingDelay").map(|delay| duration_of(&delay)).transpose()?;
    let non_fatal = node.field("nonFatalStatusCodes").map(|list| codes(&list)).transpose()?;
    Ok(HedgePolicy {
        attempts_max: attempts_max(node)?,
        delay: delay.unwrap_or_default(),
        non_fatal: non_fatal.unwrap_or_default(),
    })
}

fn attempts_max(policy: &Node<'_>) -> Result<u32, ConfigError> {
    let node = policy.require("maxAttempts")?;
    match node.u32()? {
        0 | 1 => node.wrong(Problem::Range("2 or more")),
        attempts => Ok(attempts.min(ATTEMPTS_MAX)),
    }
}

fn backoff(node: &Node<'_>) -> Result<core::time::Duration, ConfigError> {
    let duration = duration_of(node)?;
    if duration.is_zero() { node.wrong(Problem::Range("longer than 0s")) } else { Ok(duration) }
}

fn duration_of(node: &Node<'_>) -> Result<core::time::Duration, ConfigError> {
    duration::parse(node.string()?).map_or_else(|| node.wrong(Problem::Duration), Ok)
}

fn codes(list: &Node<'_>) -> Result<CodeSet, ConfigError> {
    list.elements()?.iter().map(code).collect()
}

/// A status code by its name or number. OK is rejected, because it is not a failure.
fn code(node: &Node<'_>) -> Result<Code, ConfigError> {
    let code = match node.string() {
        Ok(name) => Code::from_name(name),
        Err(_) => Code::ALL.get(node.u32()? as usize).copied(),
    };
    let failure = code.filter(|&code| code != Code::Ok);
    failure.map_or_else(|| node.wrong(Problem::Status), Ok)
}

fn throttling(node: &Node<'_>) -> Result<Throttling, ConfigError> {
    node.object()?;
    let (tokens, ratio) = (node.require("maxTokens")?, node.require("tokenRatio")?);
    let tokens_max = tokens.u32()?;
    if !(1..=1000).contains(&tokens_max) {
        return tokens.wrong(Problem::Range("from 1 to 1000"));
    }
    // A6: three decimal places; the rest is cut off. A float to integer cast saturates.
    let token_ratio_milli = (ratio.number()? * 1000.0 + 1e-6) as u32;
    if token_ratio_milli == 0 {
        return ratio.wrong(Problem::Range("0.001 or more"));
    }
    Ok(Throttling { tokens_max, token_ratio_milli })
}

/// The first known policy of `loadBalancingConfig`, else `loadBalancingPolicy`.
fn balance(root: &Node<'_>) -> Result<Option<Balance>, ConfigError> {
    if let Some(list) = root.field("loadBalancingConfig") {
        for entry in list.elements()? {
            let [name] = entry.keys()?[..] else {
                return entry.wrong(Problem::Range("an object with one field"));
            };
            if let Some(balance) = balance_of_name(name) {
                return Ok(Some(balance));
            }
        }
        return list.wrong(Problem::Balance);
    }
    let Some(name) = root.field("loadBalancingPolicy") else { return Ok(None) };
    let known = balance_of_name(&name.string()?.to_ascii_lowercase());
    known.map_or_else(|| name.wrong(Problem::Balance), |balance| Ok(Some(balance)))
}

fn balance_of_name(name: &str) -> Option<Balance> {
    Some(match name {
        "pick_first" => Balance::PickFirst,
        "round_robin" => Balance::RoundRobin,
        "least_request_experimental" | "power_of_two" => Balance::PowerOfTwo,
        "prequal" => Balance::Prequal,
        _ => return None,
    })
}
