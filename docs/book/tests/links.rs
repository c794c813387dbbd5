//! The book is whole: links lead somewhere, and every chapter is listed and tested.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn book() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The chapters, and what stands beside them.
fn pages() -> Vec<PathBuf> {
    let files = fs::read_dir(book().join("src")).expect("the book has a source");
    let files = files.map(|file| file.expect("it can be read").path());
    let mut pages: Vec<_> = files.filter(|path| path.is_file()).collect();
    pages.push(book().join("README.md"));
    pages.sort();
    pages
}

/// What a page links to, code apart.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let after = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        links.extend(after.map(str::to_owned));
    }
    links
}

/// A heading's anchor, as mdBook and forges make it.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for page in pages() {
        for link in links(&read(&page)) {
            if link.starts_with("http") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = page.parent().expect("it is in a folder");
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            let leads =
                target.exists() && (anchor.is_empty() || anchors(&read(&target)).contains(anchor));
            if !leads {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_chapter_is_listed_and_tested() {
    let is_chapter = |name: &String| name.ends_with(".md") && name != "SUMMARY.md";
    let name = |path: &PathBuf| path.file_name()?.to_str().map(str::to_owned);
    let pages = pages();
    let files = pages.iter().filter_map(name).filter(is_chapter);
    let files: BTreeSet<String> = files.filter(|name| name != "README.md").collect();
    let listed: BTreeSet<String> =
        links(&read(&book().join("src/SUMMARY.md"))).into_iter().collect();
    assert_eq!(listed, files);
    let tested = read(&book().join("lib.rs"));
    let tested = tested.split("\nchapters! {").nth(1).expect("the list of chapters");
    let tested = tested.split('}').next().expect("its end").split_whitespace();
    assert_eq!(tested.map(|name| format!("{name}.md")).collect::<BTreeSet<_>>(), files);
}

/// The files that the first chapter quotes, which documentation tests cannot compile.
const QUOTED: [&str; 2] = ["build.rs", "protos/hello.proto"];

#[test]
fn quoted_files_are_those_of_the_example() {
    let text = read(&book().join("src/getting_started.md"));
    let blocks: Vec<&str> = text
        .split("\n```")
        .filter_map(|part| part.split_once('\n'))
        .map(|(_, block)| block)
        .collect();
    for file in QUOTED {
        let file = read(&book().join("../../examples/hello").join(file));
        let code =
            file.lines().filter(|line| !line.starts_with("//!")).collect::<Vec<_>>().join("\n");
        assert!(blocks.contains(&code.trim()), "not quoted:\n{code}");
    }
}

#[test]
fn blocks_say_what_they_are() {
    // Without a language a block would be taken for Rust by tests, and for nothing by readers.
    for page in pages() {
        let text = read(&page);
        let fences = text.lines().filter(|line| line.trim_start().starts_with("```"));
        let opening: Vec<&str> = fences.step_by(2).map(|line| line.trim()).collect();
        assert!(opening.iter().all(|fence| *fence != "```"), "{}", page.display());
    }
}
