//! The configuration in force, as a process that takes over gets it.

use petasos::Msg;
use petasos_admin as proto;
use petasos_service::ApplicationLimits;
use serde::{Deserialize, Serialize};

use super::{Control, Quotas};
use crate::policies::{self, Policies};

/// What operators have set. Fields may be added; a process refuses those that it does not know.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct InForce {
    policies: Vec<serde_json::Value>,
    quotas: Vec<Quota>,
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
        let quotas = self.quotas.all().map(|(name, limits)| quota_of(name, limits));
        let all = InForce { policies: rules.collect(), quotas: quotas.collect() };
        serde_json::to_vec(&all).map_err(|error| error.to_string())
    }

    /// What another process had in force.
    ///
    /// # Errors
    /// What this one cannot do of it.
    pub fn of(text: &[u8], file: Option<std::path::PathBuf>) -> Result<Control, String> {
        let all: InForce = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let rules = serde_json::Value::Array(all.policies).to_string();
        let mut control = Control::new(Policies::new(policies::parse(&rules)?), file);
        let mut quotas = Quotas::default();
        for quota in &all.quotas {
            quotas.set(&quota.message()).map_err(|error| error.to_string())?;
        }
        control.quotas = quotas;
        Ok(control)
    }
}

fn quota_of(name: &str, limits: &ApplicationLimits) -> Quota {
    Quota {
        application: name.to_owned(),
        items_max: limits.items_max as u64,
        message_bytes_max: limits.message_bytes_max as u64,
        metadata_bytes_max: limits.metadata_bytes_max as u64,
        held_bytes_max: limits.held_bytes_max as u64,
        descriptors_max: limits.descriptors_max as u64,
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
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_force_comes_over_whole() {
        let rules = r#"[{"application": "shop", "kind": "rate_limit",
            "configuration": {"rate_per_s": 7, "burst": 3},
            "budget": {"percent": 2.5, "over": "closed"}}]"#;
        let rules = policies::parse(rules).expect("it is right");
        let mut before = Control::new(Policies::new(rules), None);
        let quota = Quota { items_max: 7, ..quota_of("shop", &ApplicationLimits::default()) };
        before.quotas.set(&quota.message()).expect("in range");
        let after = Control::of(&before.in_force().expect("it can be said"), None);
        let after = after.expect("it is understood");
        assert_eq!(after.in_force().unwrap_or_default(), before.in_force().unwrap_or_default());
        assert_eq!(after.quotas.of("shop").items_max, 7);
        let rules = after.policies().rules();
        assert_eq!(rules[0].made.kind_name(), "rate_limit");
        assert_eq!(rules[0].budget.map(|budget| budget.percent()), Some(2.5));
        for wrong in ["", "{}", r#"{"policies": [], "quotas": [], "more": 1}"#] {
            assert!(Control::of(wrong.as_bytes(), None).is_err(), "{wrong}");
        }
        let unknown = br#"{"policies": [{"application": "*", "kind": "none"}], "quotas": []}"#;
        let error = Control::of(unknown, None).err().unwrap_or_default();
        assert!(error.contains("there is no kind `none`"), "{error}");
    }
}
