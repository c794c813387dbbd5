//! What programs find in the results of every figure, whatever it measures.

use serde_json::{Map, Value, json};

use crate::report::Report;

/// Results by contender; empty if a figure has none.
const MAPS: [&str; 4] = ["contenders", "curves", "predicted", "ratios"];
/// Of each contender; `null` if a figure does not measure it.
const OF_CONTENDER: [&str; 6] =
    ["p50_us", "p99_us", "ops_per_s", "gbit_per_s", "cpu_s_per_million", "load_at_objective"];
/// Of arrivals; `null` in closed loops, which have none of their own.
const OF_ARRIVALS: [&str; 3] = ["rate_error", "p_exponential", "p_independent"];

/// Adds what a figure has not got.
pub fn complete(report: &mut Report) {
    let results = &mut report.results;
    for name in MAPS {
        results.entry(name).or_insert_with(|| Value::Object(Map::new()));
    }
    let arrivals = results.entry("arrivals").or_insert_with(|| json!({}));
    complete_with(arrivals, &OF_ARRIVALS);
    let contenders = results.get_mut("contenders").and_then(Value::as_object_mut);
    for contender in contenders.into_iter().flat_map(Map::values_mut) {
        complete_with(contender, &OF_CONTENDER);
    }
}

fn complete_with(value: &mut Value, names: &[&str]) {
    let Some(fields) = value.as_object_mut() else { return };
    for name in names {
        fields.entry(*name).or_insert(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_and_the_rest_is_null() {
        let mut report = Report::of("router", "x", json!({}));
        report.with("contenders", json!({ "one": { "p50_us": 7.0, "more": 1 } }));
        complete(&mut report);
        let one = &report.results["contenders"]["one"];
        assert_eq!(
            (&one["p50_us"], &one["more"], &one["gbit_per_s"]),
            (&7.0.into(), &1.into(), &Value::Null)
        );
        assert!(one.as_object().is_some_and(|one| one.len() == OF_CONTENDER.len() + 1));
        assert_eq!(report.results["predicted"], json!({}));
        assert!(report.results["arrivals"]["rate_error"].is_null());
    }
}
