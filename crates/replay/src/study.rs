//! What traffic is like, and which limits would touch how many of its keys.
//!
//! Requests are counted in windows that are aligned to the Unix epoch, as `fixed_window` does. A
//! limit of N touches a key if one of the key's windows has more than N requests: exactly the keys
//! that the engine denies at least once.

use std::collections::HashMap;

use tollgate_core::{Moment, Span};

use crate::key_shape::KeyShape;
use crate::traffic::Traffic;
use crate::warning::{cut_message, trailing_message};

mod log_span;
mod quantiles;
mod report;
mod route;
mod rules_file;

pub use quantiles::Quantiles;

use log_span::{LogSpan, number_of};
use quantiles::quantiles;
use route::{Route, TemplateCounts, count_given};

/// The version of [`Study::to_json`].
pub const STUDY_VERSION: u32 = 1;
/// The most templates of paths, and the most other routes, that are studied: those with the most
/// requests.
pub const ROUTES_MAX: usize = 10;
/// The fewest requests of a route that is studied.
pub const ROUTE_EVENTS_MIN: usize = 100;
/// The windows that are studied.
pub const WINDOWS: [Span; 4] = [Span::SECOND, Span::MINUTE, Span::from_secs(300), Span::HOUR];
/// The shares of keys that the suggested limits may touch, in parts of 1000.
pub const SHARES: [usize; 3] = [0, 1, 10];

/// The share of the requests above which one key is worth a warning, in percent.
const ONE_KEY_PERCENT: usize = 90;
/// With fewer requests there is no warning.
const EVENTS_MIN: usize = 100;
/// With fewer keys, a limit for 0.1 % of the keys touches none.
const KEYS_MIN: usize = 1000;

/// What traffic is like.
#[derive(Clone, Debug)]
pub struct Study {
    /// The first moment, and the last.
    pub span: Option<(Moment, Moment)>,
    /// All requests.
    pub all: Part,
    /// The routes with the most requests: templates of paths such as `/users/{id}`, first segments
    /// with a star such as `/img/*`, and paths of one segment.
    pub routes: Vec<(String, Part)>,
    /// How many requests are in routes that no rule can be for: a rule's value cannot stand for
    /// their paths alone.
    pub without_rule: usize,
    /// Templates by which the log's paths are shaped, and that are not [`Study::routes`].
    pub other_templates: Vec<String>,
    /// The key with the most requests, and how many.
    pub largest: Option<(String, usize)>,
    /// Reasons to doubt what is suggested.
    pub warnings: Vec<StudyWarning>,
}

/// Why a suggestion may be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StudyWarning {
    /// The compressed data of an input end early; what precedes counts.
    Cut {
        /// Which, after how many lines, and why.
        message: String,
    },
    /// Something that is ignored follows the compressed data of an input.
    Trailing {
        /// Which input.
        message: String,
    },
    /// One key has nearly all requests: a proxy, or one client that sends most of the traffic.
    OneKey,
    /// Each request has its own key: a limit on it stops nobody.
    OwnKeys,
    /// There are too few keys to tell 0.1 % of them from none.
    FewKeys,
    /// No window of some length lies wholly in the log: a client that goes on sends more in one.
    ShortLog,
}

/// The requests of all routes, or of one.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// How many requests.
    pub events: usize,
    /// How many keys.
    pub keys: usize,
    /// For each of [`WINDOWS`].
    pub windows: Vec<WindowPart>,
}

/// The requests of each key in each window of one length.
#[derive(Clone, Debug)]
pub struct WindowPart {
    /// The length.
    pub window: Span,
    /// Whether no window of this length lies wholly in the log.
    pub is_partial: bool,
    /// The requests of a key in a window in which it has any.
    pub counts: Quantiles,
    /// The limits that touch at most each of [`SHARES`] of the keys.
    pub limits: Vec<SuggestedLimit>,
}

/// A limit that touches at most a share of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuggestedLimit {
    /// The share, in parts of 1000.
    pub per_mille: usize,
    /// Requests of a key in a window.
    pub limit: u32,
    /// How many keys it touches.
    pub touched: usize,
    /// The limit that the first half of the requests alone would suggest.
    pub of_first_half: u32,
    /// How many keys that one touches in the second half, of how many.
    pub touched_later: (usize, usize),
}

/// A request: its key, its moment.
type Event = (u32, Moment);

// === impl Study ===

impl Study {
    /// Studies an access log whose first descriptor is the key, and whose second one has the path.
    pub fn of(traffic: &mut Traffic) -> Study {
        traffic.put_in_order();
        let keys = describe_keys(traffic);
        let events = traffic.kept_events();
        let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let mut counts = vec![0; traffic.requests()];
        for event in events {
            counts[index(event.request)] += 1;
        }
        let paths: Vec<_> = numbers_of_requests(traffic)
            .map(|number| path_of(traffic, number))
            .collect();
        let routes = describe_routes(traffic.shape(), &paths, &counts);
        let without_rule = count_without_rule(&routes, &paths, &counts);
        let of_all: Vec<Event> = events
            .iter()
            .map(|event| (keys.of_requests[index(event.request)], event.at))
            .collect();
        let mut of_routes: HashMap<Route, Vec<Event>> = HashMap::new();
        for (event, all) in events.iter().zip(&of_all) {
            let route = routes[index(event.request)].clone();
            if let Some(route) = route {
                of_routes.entry(route).or_default().push(*all);
            }
        }
        let mut of_routes: Vec<(Route, Vec<Event>)> = of_routes
            .into_iter()
            .filter(|(_, events)| events.len() >= ROUTE_EVENTS_MIN)
            .collect();
        of_routes.sort_by(|one, other| (other.1.len(), &one.0).cmp(&(one.1.len(), &other.0)));
        let (mut room, mut room_for_templates) = (ROUTES_MAX, ROUTES_MAX);
        of_routes.retain(|(route, _)| {
            let room = match route.is_template() {
                true => &mut room_for_templates,
                false => &mut room,
            };
            let fits = *room > 0;
            *room = room.saturating_sub(1);
            fits
        });
        let first_and_last = events.first().zip(events.last());
        let span = first_and_last.map(|(one, other)| (one.at, other.at));
        let log_span = LogSpan::of(span);
        let routes = of_routes.iter();
        let routes = routes.map(|(route, events)| (route.pattern(), Part::of(events, log_span)));
        let all = Part::of(&of_all, log_span);
        let largest = keys.largest(&of_all);
        Study {
            span,
            other_templates: other_templates(traffic.shape(), &of_routes),
            routes: routes.collect(),
            without_rule,
            warnings: warnings(&all, largest.as_ref(), traffic),
            all,
            largest,
        }
    }
}

/// Reasons to doubt what is suggested.
fn warnings(all: &Part, largest: Option<&(String, usize)>, traffic: &Traffic) -> Vec<StudyWarning> {
    let cuts = traffic.cuts().map(|(input, lines, cut)| StudyWarning::Cut {
        message: cut_message(input, lines, cut),
    });
    let trailing = traffic.find_trailing();
    let trailing = trailing.map(|(input, compression)| StudyWarning::Trailing {
        message: trailing_message(input, compression),
    });
    let mut warnings: Vec<_> = cuts.chain(trailing).collect();
    let most = largest.map_or(0, |(_, events)| *events);
    if all.events >= EVENTS_MIN && most * 100 >= all.events * ONE_KEY_PERCENT {
        warnings.push(StudyWarning::OneKey);
    }
    if all.events >= EVENTS_MIN && all.keys == all.events {
        warnings.push(StudyWarning::OwnKeys);
    }
    if all.keys < KEYS_MIN {
        warnings.push(StudyWarning::FewKeys);
    }
    if all.windows.iter().any(|part| part.is_partial) {
        warnings.push(StudyWarning::ShortLog);
    }
    warnings
}

// === keys and routes of requests ===

/// The key of each distinct request, as a number.
struct Keys {
    of_requests: Vec<u32>,
    names: Vec<String>,
}

/// The key of each distinct request.
fn describe_keys(traffic: &Traffic) -> Keys {
    let (mut numbers, mut names) = (HashMap::<Vec<u8>, u32>::new(), Vec::new());
    let mut of_requests = Vec::new();
    for number in numbers_of_requests(traffic) {
        let (identity, name) = traffic.request(number, |request| {
            let entries = request
                .descriptors
                .first()
                .map_or(&[][..], |one| &one.entries);
            let mut identity = Vec::new();
            for entry in entries {
                identity.extend_from_slice(&entry.value.len().to_be_bytes());
                identity.extend_from_slice(entry.value);
            }
            let values = entries
                .iter()
                .map(|entry| tollgate_core::to_text(entry.value));
            (identity, values.collect::<Vec<_>>().join(" "))
        });
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let key = *numbers.entry(identity).or_insert_with(|| {
            names.push(name);
            next
        });
        of_requests.push(key);
    }
    Keys { of_requests, names }
}

/// The path of a request, which is empty if its line has none.
fn path_of(traffic: &Traffic, number: u32) -> Option<Vec<u8>> {
    traffic.request(number, |request| {
        let path = request.descriptors.get(1)?.entries.first()?;
        Some(path.value.to_vec())
    })
}

/// The route of each distinct request, which has this path and of which there are so many.
fn describe_routes(
    shape: &KeyShape,
    paths: &[Option<Vec<u8>>],
    counts: &[usize],
) -> Vec<Option<Route>> {
    let found = || paths.iter().map(Option::as_deref).zip(counts);
    let counted = || {
        let found = found().filter_map(|(path, count)| Some((path?, *count)));
        found.filter(|(path, _)| !shape.is_template(path))
    };
    let mut templates = TemplateCounts::default();
    for (path, count) in counted() {
        templates.add(path, count);
    }
    let room = ROUTES_MAX.saturating_sub(count_given(shape, found()));
    let finder = templates.finder(room, counted());
    let routes = found().map(|(path, _)| match path? {
        path if shape.is_template(path) => Route::of_template(path),
        path => finder.find(path),
    });
    routes.collect()
}

/// The templates of the shape that are not among these routes.
fn other_templates(shape: &KeyShape, routes: &[(Route, Vec<Event>)]) -> Vec<String> {
    let mut templates = shape.templates().to_vec();
    templates.retain(|template| routes.iter().all(|(route, _)| route.pattern() != *template));
    templates
}

/// How many requests have a path and no route.
fn count_without_rule(
    routes: &[Option<Route>],
    paths: &[Option<Vec<u8>>],
    counts: &[usize],
) -> usize {
    let requests = routes.iter().zip(paths).zip(counts);
    let without = requests.filter(|((route, path), _)| {
        let has_path = path.as_ref().is_some_and(|path| !path.is_empty());
        route.is_none() && has_path
    });
    without.map(|(_, count)| count).sum()
}

fn numbers_of_requests(traffic: &Traffic) -> impl Iterator<Item = u32> {
    0..u32::try_from(traffic.requests()).unwrap_or(u32::MAX)
}

impl Keys {
    fn largest(&self, events: &[Event]) -> Option<(String, usize)> {
        let mut counts = vec![0_usize; self.names.len()];
        for (key, _) in events {
            counts[usize::try_from(*key).unwrap_or(usize::MAX)] += 1;
        }
        let (key, count) = counts.iter().enumerate().max_by_key(|(_, count)| **count)?;
        Some((self.names[key].clone(), *count))
    }
}

// === impl Part ===

impl Part {
    /// `events` are in order of time, and those of a log of this span.
    fn of(events: &[Event], log_span: LogSpan) -> Part {
        let (first, second) = events.split_at(events.len() / 2);
        let windows = WINDOWS.map(|window| {
            let (counts, peaks) = count(events, window);
            let (_, peaks_before) = count(first, window);
            let (_, peaks_after) = count(second, window);
            let limits = SHARES.map(|per_mille| {
                let limit = limit_for(&peaks, per_mille);
                let of_first_half = limit_for(&peaks_before, per_mille);
                SuggestedLimit {
                    per_mille,
                    limit,
                    touched: count_above(&peaks, limit),
                    of_first_half,
                    touched_later: (count_above(&peaks_after, of_first_half), peaks_after.len()),
                }
            });
            WindowPart {
                window,
                is_partial: !log_span.has_whole(window),
                counts: quantiles(counts),
                limits: limits.to_vec(),
            }
        });
        Part {
            events: events.len(),
            keys: count(events, Span::SECOND).1.len(),
            windows: windows.to_vec(),
        }
    }
}

/// The requests of each key in each window that has any, and the most of each key.
fn count(events: &[Event], window: Span) -> (Vec<u32>, Vec<u32>) {
    let windows = events
        .iter()
        .map(|(key, at)| (*key, number_of(*at, window)));
    let mut windows: Vec<(u32, u64)> = windows.collect();
    windows.sort_unstable();
    let of_windows = windows.chunk_by(|one, other| one == other);
    let counts: Vec<(u32, u32)> = of_windows
        .map(|events| (events[0].0, u32::try_from(events.len()).unwrap_or(u32::MAX)))
        .collect();
    let of_keys = counts.chunk_by(|one, other| one.0 == other.0);
    let peaks = of_keys.map(|counts| counts.iter().map(|(_, count)| *count).max().unwrap_or(0));
    let mut peaks: Vec<u32> = peaks.collect();
    peaks.sort_unstable();
    (counts.into_iter().map(|(_, count)| count).collect(), peaks)
}

/// The least limit that touches at most this share of the keys. `peaks` are in order.
fn limit_for(peaks: &[u32], per_mille: usize) -> u32 {
    let may_touch = peaks.len() * per_mille / 1000;
    let last = peaks.len().checked_sub(may_touch + 1);
    last.map_or(1, |last| peaks[last])
}

/// How many keys have a window with more requests than this limit.
fn count_above(peaks: &[u32], limit: u32) -> usize {
    peaks.len() - peaks.partition_point(|peak| *peak <= limit)
}
