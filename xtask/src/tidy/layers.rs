//! Compares the boundary rules between crates, as the map states them, with cargo's metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::{Finding, MAP_FILE, TextFile};

const HEADING: &str = "## Dependency rules";

/// The dependencies that each crate may have, and the line of the map with them.
type Table = BTreeMap<String, (usize, BTreeSet<String>)>;

/// Each member's dependencies on other members, except those of tests and benches.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Compares the map with cargo's metadata.
pub fn check(map: Option<&TextFile>, metadata: &Value) -> Result<Vec<Finding>, String> {
    let graph = graph(metadata).ok_or("cargo metadata: packages are not where they used to be")?;
    let Some(map) = map else {
        let advice = format!("the map is missing: write it, with a table under `{HEADING}`");
        return Ok(vec![Finding::new(Path::new(MAP_FILE), 1, "map", advice)]);
    };
    let table = table(&map.text);
    if table.is_empty() {
        let advice = format!(
            "no table under `{HEADING}`: write one with a row like \
             | `petasos-wire` | `petasos-base` | for each crate"
        );
        return Ok(vec![Finding::new(&map.path, 1, "map", advice)]);
    }
    let mut findings = Vec::new();
    for (name, uses) in &graph {
        findings.extend(check_member(map, &table, name, uses));
    }
    for (name, (line, _)) in table.iter().filter(|(name, _)| !graph.contains_key(*name)) {
        let advice = format!("the workspace has no `{name}`: delete the row");
        findings.push(Finding::new(&map.path, *line, "map", advice));
    }
    Ok(findings)
}

fn check_member(
    map: &TextFile,
    table: &Table,
    name: &str,
    uses: &BTreeSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !has_paragraph(&map.text, name) {
        let advice = format!(
            "`{name}` has no paragraph: write one that begins with **`{name}`** and says what it \
             must not know"
        );
        findings.push(Finding::new(&map.path, 1, "map", advice));
    }
    let Some((line, may_use)) = table.get(name) else {
        let advice = format!("`{name}` has no row under `{HEADING}`: add one");
        findings.push(Finding::new(&map.path, 1, "map", advice));
        return findings;
    };
    for used in uses.difference(may_use) {
        let advice = format!(
            "`{name}` depends on `{used}`, which its row does not allow: drop the dependency, or \
             argue for the row in docs/adr"
        );
        findings.push(Finding::new(&map.path, *line, "layers", advice));
    }
    findings
}

fn graph(metadata: &Value) -> Option<Graph> {
    let packages = metadata["packages"].as_array()?;
    let name = |value: &Value| value["name"].as_str().map(str::to_owned);
    let members: BTreeSet<String> = packages.iter().map(name).collect::<Option<_>>()?;
    let uses = |package: &Value| {
        let all = package["dependencies"].as_array()?.iter();
        let production = all.filter(|dependency| dependency["kind"] != "dev");
        let names: BTreeSet<String> = production.map(name).collect::<Option<_>>()?;
        Some(names.intersection(&members).cloned().collect())
    };
    packages.iter().map(|package| Some((name(package)?, uses(package)?))).collect()
}

fn table(map: &str) -> Table {
    let section = map.lines().enumerate().skip_while(|(_, line)| line.trim() != HEADING).skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with("## "));
    section
        .filter_map(|(at, line)| {
            let mut cells = line.trim().strip_prefix('|')?.split('|');
            let crate_name = code_spans(cells.next()?).next()?;
            Some((crate_name, (at + 1, code_spans(cells.next()?).collect())))
        })
        .collect()
}

/// The texts between backticks.
fn code_spans(cell: &str) -> impl Iterator<Item = String> + use<'_> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Whether a paragraph begins with the crate's name and states its boundary.
fn has_paragraph(map: &str, name: &str) -> bool {
    let name = format!("`{name}`");
    map.split("\n\n").any(|paragraph| {
        let begins = paragraph.trim_start_matches(['#', '*', '-', ' ', '\n']).starts_with(&name);
        begins && paragraph.to_lowercase().contains("must not")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MAP: &str = "# Map\n\n## Dependency rules\n\n| crate | may depend on |\n|---|---|\n\
        | `base` | nothing |\n| `wire` | `base`, `other` |\n\n## Crates\n\n\
        **`base`**: ids. *Must not* know any other crate.\n\n**`wire`**: bits. *Must not* act.\n";

    /// Members `base` and `wire`; `wire` depends on `of_wire`, each with its kind.
    fn workspace(of_wire: &[(&str, Option<&str>)]) -> Value {
        let of_wire = of_wire.iter().map(|(name, kind)| json!({"name": name, "kind": kind}));
        let of_wire: Vec<Value> = of_wire.collect();
        json!({"packages": [
            {"name": "base", "dependencies": [{"name": "libc", "kind": null}]},
            {"name": "wire", "dependencies": of_wire},
        ]})
    }

    fn findings(map: &str, metadata: &Value) -> Vec<(usize, String)> {
        let map = TextFile { path: MAP_FILE.into(), text: map.into() };
        let findings = check(Some(&map), metadata).unwrap();
        findings.into_iter().map(|finding| (finding.line, finding.advice)).collect()
    }

    #[test]
    fn allowed_and_foreign_dependencies_pass() {
        assert!(findings(MAP, &workspace(&[("base", None), ("arrayvec", None)])).is_empty());
    }

    #[test]
    fn a_dependency_beyond_the_row_is_found_at_the_row() {
        let map = MAP.replace("`base`, `other`", "nothing");
        let found = findings(&map, &workspace(&[("base", None)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 8);
        assert!(found[0].1.contains("`wire` depends on `base`"));
        assert_eq!(findings(&map, &workspace(&[("base", Some("build"))])).len(), 1);
        assert!(findings(&map, &workspace(&[("base", Some("dev"))])).is_empty());
    }

    #[test]
    fn every_member_has_a_row_and_every_row_a_member() {
        let without_row = MAP.replace("| `wire` | `base`, `other` |\n", "");
        assert!(findings(&without_row, &workspace(&[]))[0].1.contains("`wire` has no row"));
        let with_stale_row = MAP.replace("|---|---|\n", "|---|---|\n| `old` | nothing |\n");
        assert!(findings(&with_stale_row, &workspace(&[]))[0].1.contains("has no `old`"));
    }

    #[test]
    fn every_member_has_a_paragraph_with_its_boundary() {
        for map in [MAP.replace("**`wire`**: bits", "Bits"), MAP.replace("*Must not* act", "Acts")]
        {
            assert!(findings(&map, &workspace(&[]))[0].1.contains("`wire` has no paragraph"));
        }
    }

    #[test]
    fn a_missing_map_or_table_is_said_plainly() {
        let missing = check(None, &workspace(&[])).unwrap();
        assert!(missing[0].advice.contains("the map is missing"));
        assert!(findings("# Map\n", &workspace(&[]))[0].1.contains("no table under"));
        assert!(check(None, &json!({})).is_err());
    }
}
