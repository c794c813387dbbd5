//! The configuration in force, as a process that takes over gets it.

use std::path::PathBuf;
use std::sync::Arc;

use petasos::Msg;
use petasos_admin as proto;
use serde::{Deserialize, Serialize};

use super::Control;
use crate::plugins::Plugin;
use crate::policies::{self, Before, Policies};
use crate::quotas::{self, Quotas};

/// A quota of processor time that is none.
const ALL_PERCENT: f64 = 100.0;

/// What operators have set. Fields may be added; a process refuses those that it does not know.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct InForce {
    policies: Vec<serde_json::Value>,
    quotas: Vec<Quota>,
    /// Only if there are some: earlier versions do not know them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plugins: Vec<LoadedPlugin>,
}

/// A plug-in.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct LoadedPlugin {
    name: String,
    path: PathBuf,
}

/// What applications of a name may have; without a name, all others.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Quota {
    application: String,
    items_max: u64,
    message_bytes_max: u64,
    metadata_bytes_max: u64,
    held_bytes_max: u64,
    descriptors_max: u64,
    /// Only if there is one, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    processor_percent: Option<f64>,
    /// These three only if one of them is set, for this name or for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    calls_max: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    send_heap_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    receive_heap_bytes: Option<u64>,
}

impl Control {
    /// The configuration in force, as JSON.
    ///
    /// # Errors
    /// None is known.
    pub fn in_force(&self) -> Result<Vec<u8>, String> {
        let rules = self.policies.rules().iter().map(|rule| {
            let configuration: serde_json::Value =
                serde_json::from_str(&rule.made.configuration).expect("it was checked");
            let mut one = serde_json::json!({
                "application": &*rule.application,
                "kind": rule.made.kind_name(),
                "configuration": configuration,
            });
            // Only if there is one: earlier versions do not know it.
            if let Some(budget) = rule.budget {
                one["budget"] = serde_json::to_value(budget).expect("it is plain data");
            }
            one
        });
        let others = self.quotas.of("");
        let is_shared = others.processor.is_some();
        let quotas = self.quotas.all().map(|(name, quota)| {
            let has_more = has_more(quota) || has_more(&others);
            let quota = quota_of(name, quota, has_more);
            // What it does not say is as for others: all of a processor has to be said.
            let percent = quota.processor_percent.or(is_shared.then_some(ALL_PERCENT));
            Quota { processor_percent: percent, ..quota }
        });
        let plugins = self
            .plugins
            .iter()
            .map(|plugin| LoadedPlugin { name: plugin.name.clone(), path: plugin.path.clone() });
        let (policies, quotas) = (rules.collect(), quotas.collect());
        let all = InForce { policies, quotas, plugins: plugins.collect() };
        serde_json::to_vec(&all).map_err(|error| error.to_string())
    }

    /// Goes on with what another process had in force, and with plug-ins that it had not. To load
    /// them takes time.
    ///
    /// # Errors
    /// What this one cannot do of it.
    pub fn take_over(
        &mut self,
        text: &[u8],
        more_plugins: &[(String, PathBuf)],
    ) -> Result<(), String> {
        let all: InForce = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let before = all.plugins.iter().map(|plugin| (&plugin.name, &plugin.path));
        for (name, path) in before.chain(more_plugins.iter().map(|(name, path)| (name, path))) {
            if self.plugins.find(name).is_none() {
                self.plugins.put(Arc::new(Plugin::load(name, path)?))?;
            }
        }
        let rules = serde_json::Value::Array(all.policies).to_string();
        let rules = policies::parse(&rules, Before { plugins: &self.plugins, rules: &[] })?;
        let mut quotas = Quotas::default();
        for quota in &all.quotas {
            quotas.set(&quota.message()).map_err(|error| error.to_string())?;
        }
        self.set_policies(Policies::new(rules));
        self.quotas = quotas;
        Ok(())
    }
}

/// Whether a quota has what earlier versions do not know.
fn has_more(quota: &quotas::Quota) -> bool {
    let always = quotas::Quota::default();
    quota.heaps != always.heaps || quota.limits.calls_max != always.limits.calls_max
}

fn quota_of(name: &str, quota: &quotas::Quota, has_more: bool) -> Quota {
    let (limits, heaps) = (&quota.limits, &quota.heaps);
    let more = |value: usize| has_more.then_some(value as u64);
    Quota {
        application: name.to_owned(),
        items_max: limits.items_max as u64,
        message_bytes_max: limits.message_bytes_max as u64,
        metadata_bytes_max: limits.metadata_bytes_max as u64,
        held_bytes_max: limits.held_bytes_max as u64,
        descriptors_max: limits.descriptors_max as u64,
        processor_percent: quota.processor.map(|share| share.percent()),
        calls_max: more(limits.calls_max),
        send_heap_bytes: more(heaps.send),
        receive_heap_bytes: more(heaps.receive),
    }
}

impl Quota {
    fn message(&self) -> Msg<proto::Quota> {
        let mut message = proto::Quota::new();
        let mut edit = message.edit();
        edit.set_application(&self.application)
            .set_items_max(self.items_max)
            .set_message_bytes_max(self.message_bytes_max)
            .set_metadata_bytes_max(self.metadata_bytes_max)
            .set_held_bytes_max(self.held_bytes_max)
            .set_descriptors_max(self.descriptors_max);
        self.processor_percent
            .map(|percent| edit.set_processor_percent(percent).processor_percent());
        self.calls_max.map(|value| edit.set_calls_max(value).calls_max());
        self.send_heap_bytes.map(|value| edit.set_send_heap_bytes(value).send_heap_bytes());
        self.receive_heap_bytes
            .map(|value| edit.set_receive_heap_bytes(value).receive_heap_bytes());
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Live;
    use crate::plugins::Plugins;

    fn control(rules: &str) -> Control {
        let plugins = Plugins::default();
        let rules = policies::parse(rules, Before { plugins: &plugins, rules: &[] });
        let rules = Some(rules.expect("it is right"));
        Control::new(Live { plugins, rules, whole: None }, None)
    }

    fn taken_over(text: &[u8]) -> Result<Control, String> {
        let mut control = control("[]");
        control.take_over(text, &[]).map(|()| control)
    }

    #[test]
    fn what_is_in_force_comes_over_whole() {
        let mut before = control(
            r#"[{"application": "shop", "kind": "rate_limit",
                 "configuration": {"rate_per_s": 7, "burst": 3},
                 "budget": {"percent": 2.5, "over": "closed"}}]"#,
        );
        let mut quota = quota_of("shop", &quotas::Quota::default(), false);
        (quota.items_max, quota.processor_percent) = (7, Some(12.5));
        before.quotas.set(&quota.message()).expect("in range");
        let text = before.in_force().expect("it can be said");
        let after = taken_over(&text).expect("it is understood");
        assert_eq!(after.in_force().unwrap_or_default(), text);
        let quota = after.quotas.of("shop");
        assert_eq!(quota.limits.items_max, 7);
        assert_eq!(quota.processor.map(|share| share.percent()), Some(12.5));
        // Others have a share, and one name has all.
        for (name, percent) in [("", 20.0), ("shop", 100.0)] {
            let mut quota = quota_of(name, &quotas::Quota::default(), false);
            quota.processor_percent = Some(percent);
            before.quotas.set(&quota.message()).expect("in range");
        }
        let shared = taken_over(&before.in_force().expect("it can be said"));
        let shared = shared.expect("it is understood").quotas;
        let percent = |name: &str| shared.of(name).processor.map(|share| share.percent());
        assert_eq!([percent("shop"), percent("other")], [None, Some(20.0)]);
        // Others have small heaps, and one name has what is usual.
        let said = String::from_utf8(before.in_force().expect("it can be said"));
        assert!(!said.expect("it is JSON").contains("heap_bytes"), "earlier versions know all");
        let always = quotas::Quota::default();
        let mut small = quota_of("", &always, true);
        (small.calls_max, small.receive_heap_bytes) = (Some(5), Some(1 << 20));
        for quota in [small, quota_of("shop", &always, true)] {
            before.quotas.set(&quota.message()).expect("in range");
        }
        let more = taken_over(&before.in_force().expect("it can be said"));
        let more = more.expect("it is understood").quotas;
        let told = ["shop", "other"].map(|name| more.of(name).terms().limits);
        assert_eq!(told[0], always.terms().limits);
        assert_eq!((told[1].calls_max, told[1].receive.quota_bytes), (5, 1 << 20));
        let rules = after.policies().rules();
        assert_eq!(rules[0].made.kind_name(), "rate_limit");
        assert_eq!(rules[0].budget.map(|budget| budget.percent()), Some(2.5));
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for wrong in ["", "{}", r#"{"policies": [], "quotas": [], "more": 1}"#] {
            assert!(taken_over(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let unknown = br#"{"policies": [{"application": "*", "kind": "none"}], "quotas": []}"#;
        let error = taken_over(unknown).err().unwrap_or_default();
        assert!(error.contains("there is no kind `none`"), "{error}");
        let plugin = br#"{"policies": [], "quotas": [],
                          "plugins": [{"name": "mine", "path": "/nowhere/x.so"}]}"#;
        let error = taken_over(plugin).err().unwrap_or_default();
        assert!(error.starts_with("plug-in `mine`, /nowhere/x.so: "), "{error}");
    }
}
