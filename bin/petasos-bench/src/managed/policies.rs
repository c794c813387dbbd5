//! The contenders with which policies are measured, as in section 7.2 of the mRPC paper. Policies
//! are at the client's host.

use petasos_report::Tone;

use super::contender::{Contender, Role, behind_sidecars, managed, other};
use super::service::{BARE, Plugin, Setup};
use super::sidecars::Sidecar;

/// Those of the figure of the rate limit.
pub const LIMIT: &[&str] =
    &["tonic", "envoy", "envoy-limited", "managed-bare", "managed", "managed-limited"];
/// Those of the figure of access control.
pub const ACCESS: &[&str] =
    &["tonic", "envoy", "envoy-access", "managed-bare", "managed-access", "managed-wasm"];

const LIMITED: Setup = Setup {
    policies: r#"[{"application": "*", "kind": "rate_limit",
  "configuration": {"rate_per_s": 100000000, "burst": 1000000}}]"#,
    ..BARE
};
const RULES: Setup = Setup {
    policies: r#"[{"application": "*", "kind": "access",
  "configuration": {"default": "allow", "rules": [
    {"name": "customers", "action": "deny",
     "fields": [{"path": "customer_name", "is": {"equals": "mallory"}}]}]}}]"#,
    ..BARE
};
const MODULE: Setup = Setup {
    policies: r#"[{"application": "*", "kind": "refuse",
  "configuration": {"on_failure": "closed", "configuration": "mallory"}}]"#,
    plugin: Some(Plugin { name: "refuse", file: "refuse.wat", contents: module }),
    ..BARE
};

const ENVOY_LIMIT: &str = include_str!("../../../../bench/sidecars/envoy-limit.yaml");
const ENVOY_RULES: &str = include_str!("../../../../bench/sidecars/envoy-access.yaml");

pub const MANAGED_BARE: Contender = Contender {
    configuration: Some(|| BARE.shown()),
    ..other(
        "managed-bare",
        "applications behind a petasosd on each host, without policies",
        Tone::Muted,
        |shape| managed(BARE, BARE, shape),
    )
};

pub const MANAGED_LIMITED: Contender = Contender {
    without: Some("managed-bare"),
    configuration: Some(|| LIMITED.shown()),
    ..other(
        "managed-limited",
        "the same, with a rate limit that is never reached on the client's side",
        Tone::Primary,
        |shape| managed(LIMITED, BARE, shape),
    )
};

pub const MANAGED_ACCESS: Contender = Contender {
    without: Some("managed-bare"),
    refuses: true,
    configuration: Some(|| RULES.shown()),
    ..other(
        "managed-access",
        "the same, with access control by a field on the client's side",
        Tone::Primary,
        |shape| managed(RULES, BARE, shape),
    )
};

pub const MANAGED_WASM: Contender = Contender {
    without: Some("managed-bare"),
    refuses: true,
    configuration: Some(|| MODULE.shown()),
    ..other(
        "managed-wasm",
        "the same access control as a WebAssembly module",
        Tone::Tertiary,
        |shape| managed(MODULE, BARE, shape),
    )
};

pub const ENVOY_LIMITED: Contender = Contender {
    role: Role::Proxied,
    without: Some("envoy"),
    configuration: Some(|| Sidecar::Envoy.shown(ENVOY_LIMIT)),
    ..other(
        "envoy-limited",
        "tonic with Envoy on each host, the client's with a rate limit that is never reached",
        Tone::Secondary,
        |shape| behind_sidecars(Sidecar::Envoy, ENVOY_LIMIT, shape),
    )
};

pub const ENVOY_ACCESS: Contender = Contender {
    role: Role::Proxied,
    without: Some("envoy"),
    refuses: true,
    configuration: Some(|| Sidecar::Envoy.shown(ENVOY_RULES)),
    ..other(
        "envoy-access",
        "tonic with Envoy on each host, the client's with access control by a field, in Lua",
        Tone::Secondary,
        |shape| behind_sidecars(Sidecar::Envoy, ENVOY_RULES, shape),
    )
};

/// The example of modules, which looks at another field.
fn module() -> String {
    let example = include_str!("../../../../crates/plugin/examples/refuse.wat");
    let (field, len) = (r#""name""#, "(i32.const 0) (i32.const 4) (i32.const 4)");
    example
        .replace(field, r#""customer_name""#)
        .replace(len, "(i32.const 0) (i32.const 13) (i32.const 4)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_looks_at_the_customer_s_name() {
        let module = module();
        assert!(module.contains(r#"(data (i32.const 0) "customer_name")"#), "{module}");
        let declared = "$declare_field (i32.const 0) (i32.const 13) (i32.const 4)";
        assert!(module.contains(declared), "{module}");
    }

    #[test]
    fn configurations_show_their_policies() {
        let shown = |one: Contender| one.configuration.map(|shown| shown()).unwrap_or_default();
        let has = |one: Contender, what: &str| assert!(shown(one).contains(what), "{what}");
        has(ENVOY_LIMITED, "          - name: envoy.filters.http.local_ratelimit\n");
        has(ENVOY_ACCESS, "          - name: envoy.filters.http.lua\n");
        has(MANAGED_LIMITED, "rate_limit");
        has(MANAGED_ACCESS, "customer_name");
        has(MANAGED_WASM, "--plugin refuse=FOLDER/refuse.wat");
    }
}
