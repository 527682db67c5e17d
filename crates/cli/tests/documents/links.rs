//! Links between pages lead somewhere.

use std::path::Path;

use crate::{pages, read, root};

#[test]
fn links_lead_somewhere() {
    let mut pages = pages();
    pages.extend(["ARCHITECTURE.md", "CHANGELOG.md"].map(str::to_owned));
    let mut broken = Vec::new();
    for page in &pages {
        let text = read(page);
        let folder = Path::new(page).parent().unwrap();
        for link in links(&text) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => folder.join(path).display().to_string(),
            };
            let is_there = root().join(&target).exists()
                && (anchor.is_empty() || anchors(&read(&target)).any(|one| one == anchor));
            if !is_there {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Where the links of a page lead, but for those to other sites.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| Some(rest.split_once(')')?.0));
    targets.filter(|target| !target.contains("://"))
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        kept.map(|char| if char == ' ' { '-' } else { char })
            .collect()
    })
}

#[test]
fn headings_have_anchors_and_links_have_targets() {
    let text = "# `rate_limit`, and more\n[a](b.md#c) [d](https://e) [f](#g)";
    assert_eq!(anchors(text).collect::<Vec<_>>(), ["rate_limit-and-more"]);
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md#c", "#g"]);
}
