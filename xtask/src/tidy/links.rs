//! Links from one file of the repository to another: the target must exist.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use super::{Finding, TextFile};

/// Checks the relative links to sources and pages in all pages.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let paths: HashSet<&Path> = files.iter().map(|file| file.path.as_path()).collect();
    let pages = files.iter().filter(|file| is_page(&file.path));
    pages.flat_map(|page| dead_links(page, &paths)).collect()
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn dead_links(page: &TextFile, paths: &HashSet<&Path>) -> Vec<Finding> {
    let folder = page.path.parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for target in targets(line) {
            if !paths.contains(resolved(folder, target).as_path()) {
                let advice = format!("no file `{target}`: link to where it is now");
                findings.push(Finding::new(&page.path, index + 1, "link", advice));
            }
        }
    }
    findings
}

/// The targets of the links in a line, without fragments, if they are sources or pages.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    links
        .map(|(target, _)| target.split_once('#').map_or(target, |(path, _)| path))
        .filter(|target| !target.contains("://"))
        .filter(|target| target.ends_with(".rs") || target.ends_with(".md"))
}

fn resolved(folder: &Path, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.into(), text: text.into() }
    }

    #[test]
    fn links_lead_to_files_that_exist() {
        let page = "[a](../crates/x/src/lib.rs) [b](b.md#part), [c](https://x.org/y.md) [d](#e)\n\
                    [gone](../crates/x/src/gone.rs)\nand [b](./gone.md)";
        let files =
            [file("docs/a.md", page), file("docs/b.md", ""), file("crates/x/src/lib.rs", "")];
        let found: Vec<_> =
            check(&files).into_iter().map(|found| (found.line, found.rule)).collect();
        assert_eq!(found, [(2, "link"), (3, "link")]);
    }
}
