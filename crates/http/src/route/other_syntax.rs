//! Templates in the syntax of other products, which would match only themselves here, so that the
//! limits behind them would never apply. Most of their characters may be in a path, so they are
//! errors; the character itself is written percent-encoded.

use crate::setting::InvalidSetting;

/// What to write if nothing better is known.
const TEMPLATES: &str = "write `{id}` for a whole segment, `{*rest}` at the end for the rest";

/// What is wrong, and what to write instead.
type Wrong = (String, String);

/// Checks that a template has nothing that means more in another product than it does here.
pub(super) fn check_syntax(template: &str) -> Result<(), InvalidSetting> {
    let found = find_pattern(template)
        .or_else(|| find_url(template))
        .or_else(|| find_named_segment(template))
        .or_else(|| find_named_part(template))
        .or_else(|| find_regex(template))
        .or_else(|| find_star(template))
        .or_else(|| find_query(template));
    match found {
        None => Ok(()),
        Some((problem, instead)) => Err(InvalidSetting::new("", problem, instead)),
    }
}

/// `{id:[0-9]+}`, `{rest...}`, `{id?}`: a parameter that is more than its name.
fn find_pattern(template: &str) -> Option<Wrong> {
    let parameters = template.match_indices("/{");
    parameters
        .filter_map(|(slash, _)| inside_braces(&template[slash + 1..]))
        .find_map(|inside| {
            let name = inside.strip_prefix('*').unwrap_or(inside);
            if name.chars().all(is_in_name) && !name.ends_with('.') {
                return None;
            }
            let rests = ["**", "...", ".*", ".+", ":path"];
            let is_rest = inside.starts_with(['*', '+'])
                || name.ends_with('*')
                || rests.iter().any(|one| name.contains(one));
            let meant = parameter(name.trim_start_matches(|c| !is_in_name(c)), is_rest);
            let problem =
                format!("a parameter takes no pattern, and {{{inside}}} is not just a name");
            Some((problem, format!("write `{meant}`")))
        })
}

/// What is between the brace at the beginning and the one that closes it.
fn inside_braces(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let end = text.bytes().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })?;
    text.get(1..end)
}

fn is_in_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.')
}

/// The parameter of the name that `text` begins with.
fn parameter(text: &str, is_rest: bool) -> String {
    match (first_word(text), is_rest) {
        ("", true) => "{*rest}".to_owned(),
        ("", false) => "{name}".to_owned(),
        (name, true) => format!("{{*{name}}}"),
        (name, false) => format!("{{{name}}}"),
    }
}

/// The letters and digits at the beginning.
fn first_word(text: &str) -> &str {
    let is_in_word = |character: char| character.is_alphanumeric() || "_-".contains(character);
    let end = text.find(|c| !is_in_word(c)).unwrap_or(text.len());
    &text[..end]
}

/// `https://shop.example/login`.
fn find_url(template: &str) -> Option<Wrong> {
    let (scheme, rest) = template.split_once("://")?;
    if !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let path = rest.find('/').and_then(|start| rest.get(start..));
    let problem = format!("{template} is a URL, not a path");
    Some((problem, format!("write `{}`", path.unwrap_or("/"))))
}

/// `:id` or `<id>` for a parameter.
fn find_named_segment(template: &str) -> Option<Wrong> {
    let is_named = |segment: &&str| {
        segment.starts_with(':') || segment.starts_with('<') && segment.ends_with('>')
    };
    let segment = template.split('/').find(is_named)?;
    let problem = format!("`{segment}` is literal text here, not a parameter");
    let itself = match segment.starts_with(':') {
        true => "; a colon that is meant itself is `%3A`",
        false => "",
    };
    Some((problem, format!("{}{itself}", suggest(template))))
}

/// `@:user`: a name of which only the colon is not text. In `users:batch` it is.
fn find_named_part(template: &str) -> Option<Wrong> {
    let is_named = |segment: &&str| {
        let colon = segment.find(':').and_then(|at| segment.get(..at));
        colon.is_some_and(|before| before.ends_with(['@', '~', '.', '-', '(']))
    };
    let segment = template.split('/').find(is_named)?;
    let problem = format!("`{segment}` has no parameter here, but is text");
    Some((
        problem,
        format!("{TEMPLATES}; a colon that is meant itself is `%3A`"),
    ))
}

/// What is in regular expressions, and hardly in paths.
fn find_regex(template: &str) -> Option<Wrong> {
    let is_regex = template.contains(['^', '[', ']', '|', '\\'])
        || [".*", ".+", "(?"].iter().any(|one| template.contains(one))
        || template.ends_with('$');
    let problem = format!("{template} looks like a regular expression, and paths are templates");
    let instead = format!(
        "{TEMPLATES}; a character that is meant itself is percent-encoded, such as `%24` for `$`"
    );
    is_regex.then_some((problem, instead))
}

/// `*` for a segment, a part of one, or the rest.
fn find_star(template: &str) -> Option<Wrong> {
    let segments = template.split('/');
    let has_star = |segment: &str| !segment.starts_with('{') && segment.contains('*');
    if !segments.clone().any(has_star) {
        return None;
    }
    let problem = format!("`*` is an ordinary character here, so {template} matches only itself");
    let instead = suggest(template);
    Some((
        problem,
        format!("{instead}; a star that is meant itself is `%2A`"),
    ))
}

/// `/search?q=x`.
fn find_query(template: &str) -> Option<Wrong> {
    let (path, query) = template.split_once('?')?;
    let name = query.split(['=', '&']).next().unwrap_or_default();
    let problem = format!("{template} has a query, which is not part of a path");
    let instead = match name.chars().all(is_in_name) && !name.is_empty() {
        true => format!(
            "write `{path}`; what is in the query can be in a descriptor: `from: {{query: {name}}}`"
        ),
        false => format!("write `{path}`"),
    };
    Some((problem, instead))
}

/// What to write for a template in the syntax of another product.
fn suggest(template: &str) -> String {
    let path = template.strip_prefix('/').unwrap_or(template);
    let (before, last) = match path.rsplit_once('/') {
        Some((before, last)) => (Some(before), last),
        None => (None, path),
    };
    let before = before.into_iter().flat_map(|path| path.split('/'));
    let before = before.map(|segment| translate(segment, false));
    let before: Option<String> = before.map(|one| Some(format!("/{}", one?))).collect();
    let Some(before) = before else {
        return TEMPLATES.to_owned();
    };
    let is_plain = |text: &str| !text.is_empty() && text.chars().all(is_in_name);
    match (translate(last, true), last.strip_suffix('*')) {
        (Some(last), _) => format!("write `{before}/{last}`"),
        (None, Some(start)) if is_plain(start) => format!(
            "write `{before}/{start}` and `{before}/{start}/{{*rest}}`: a parameter is a whole \
             segment"
        ),
        _ => TEMPLATES.to_owned(),
    }
}

/// The segment of ours for one of another product; `None` if there is none.
fn translate(segment: &str, is_last: bool) -> Option<String> {
    if let Some(name) = segment.strip_prefix(':') {
        let behind = &name[first_word(name).len()..];
        let is_rest = behind.ends_with(['*', '+']);
        let is_whole = matches!(behind, "" | "?" | "*" | "+") || behind.starts_with('(');
        return (is_whole && (is_last || !is_rest)).then(|| parameter(name, is_rest));
    }
    if let Some(name) = segment.strip_prefix('<') {
        let name = name.strip_suffix('>')?;
        let (kind, name) = name.rsplit_once(':').unwrap_or(("", name));
        let is_rest = kind == "path";
        return (is_last || !is_rest).then(|| parameter(name, is_rest));
    }
    match segment.strip_prefix('*') {
        None => (!segment.contains('*')).then(|| segment.to_owned()),
        Some("" | "*") if is_last => Some(parameter("", true)),
        Some("") => Some(parameter("", false)),
        Some(name) if is_last && name.chars().all(|c| c.is_alphanumeric() || c == '_') => {
            Some(parameter(name, true))
        }
        Some(_) => None,
    }
}
