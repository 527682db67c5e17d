//! What the terminal shows, and what its keys do.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Modifier;
use ratatui::text::{Line, Text};

use super::feed::Update;
use super::gateway;
use super::history::History;
use super::number::{span, time};
use super::overview::{charts, numbers};
use super::panel::{Panel, shorten};
use super::panels;
use super::snapshot::Snapshot;
use super::tone::{Tone, remove_colours};
use crate::admin_client::Failure;

/// The keys that are shown on the overview.
const OVERVIEW_KEYS: usize = 5;

/// The state of the screen.
pub(super) struct Screen {
    /// The address of the service.
    url: String,
    has_colours: bool,
    history: History,
    connection: Connection,
    tab: Tab,
    /// The first line that is shown.
    offset: usize,
    /// How many lines the body had when it was drawn.
    body: Body,
}

#[derive(Clone, Copy, Debug, Default)]
struct Body {
    lines: usize,
    rows: usize,
}

#[derive(Debug)]
enum Connection {
    Connecting,
    Live,
    /// Why there is none, and the pause before the next attempt.
    Lost(String, Duration),
}

/// What is shown below the tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Overview,
    Keys,
    Rules,
    Stores,
    Reloads,
}

/// What to do after an input.
#[derive(Debug)]
pub(super) enum Next {
    Continue,
    Quit,
    /// The service cannot be followed any more.
    Fail(Failure),
}

// === impl Tab ===

impl Tab {
    const ALL: [Tab; 5] = [
        Tab::Overview,
        Tab::Keys,
        Tab::Rules,
        Tab::Stores,
        Tab::Reloads,
    ];

    const fn name(self) -> &'static str {
        match self {
            Tab::Overview => "Overview",
            Tab::Keys => "Keys",
            Tab::Rules => "Rules",
            Tab::Stores => "Stores",
            Tab::Reloads => "Reloads",
        }
    }

    /// The tab so many places to the right, after the last one the first.
    fn skip(self, places: usize) -> Tab {
        let index = Tab::ALL.iter().position(|tab| *tab == self);
        Tab::ALL[(index.unwrap_or(0) + places) % Tab::ALL.len()]
    }
}

// === impl Screen ===

impl Screen {
    pub(super) fn new(url: String, has_colours: bool) -> Screen {
        Screen {
            url,
            has_colours,
            history: History::default(),
            connection: Connection::Connecting,
            tab: Tab::Overview,
            offset: 0,
            body: Body::default(),
        }
    }

    /// Takes what the service sent, or why it sends nothing.
    pub(super) fn update(&mut self, update: Update) -> Next {
        match update {
            Update::Snapshot(snapshot) => {
                self.history.push(*snapshot);
                self.connection = Connection::Live;
            }
            Update::Lost(failure, pause) => {
                self.connection = Connection::Lost(failure.to_string(), pause);
            }
            Update::Failed(failure) => return Next::Fail(failure),
        }
        Next::Continue
    }

    /// Takes a key of the keyboard.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Continue;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let page = self.body.rows.saturating_sub(1).max(1);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return Next::Quit,
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.open(self.tab.skip(1)),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => {
                self.open(self.tab.skip(Tab::ALL.len() - 1));
            }
            KeyCode::Char(digit @ '1'..='5') => {
                let index = digit
                    .to_digit(10)
                    .and_then(|digit| usize::try_from(digit).ok());
                self.open(Tab::ALL[index.unwrap_or(1) - 1]);
            }
            KeyCode::Down | KeyCode::Char('j') => self.scroll_to(self.offset + 1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll_to(self.offset.saturating_sub(1)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll_to(self.offset + page),
            KeyCode::PageUp => self.scroll_to(self.offset.saturating_sub(page)),
            KeyCode::Home | KeyCode::Char('g') => self.scroll_to(0),
            KeyCode::End | KeyCode::Char('G') => self.scroll_to(self.body.lines),
            _ => {}
        }
        Next::Continue
    }

    fn open(&mut self, tab: Tab) {
        self.tab = tab;
        self.offset = 0;
    }

    fn scroll_to(&mut self, line: usize) {
        self.offset = line.min(self.body.lines.saturating_sub(self.body.rows));
    }

    /// Draws everything, in a terminal of any size.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let areas = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ]);
        let [head, tabs, body, foot] = areas.areas(frame.area());
        let width = usize::from(body.width);
        let mut lines = self.body(width);
        self.body = Body {
            lines: lines.len(),
            rows: usize::from(body.height),
        };
        // The table may have become shorter, or the terminal higher.
        self.scroll_to(self.offset);
        lines.drain(..self.offset);
        lines.truncate(self.body.rows);
        for (mut lines, area) in [
            (vec![self.head(width)], head),
            (vec![self.tabs(width)], tabs),
            (lines, body),
            (vec![self.foot(width)], foot),
        ] {
            if !self.has_colours {
                remove_colours(&mut lines);
            }
            frame.render_widget(Text::from(lines), area);
        }
    }

    fn head(&self, width: usize) -> Line<'static> {
        let state = match (&self.connection, self.history.latest()) {
            (Connection::Lost(..), _) => Tone::Bad.span("no connection"),
            (Connection::Live, Some(snapshot)) => Tone::Good.span(live(snapshot)),
            _ => Tone::Muted.span("connecting"),
        };
        let url = shorten(&self.url, width.saturating_sub(state.width() + 12));
        Line::from(vec![
            Tone::Title.span("Tollgate  "),
            state,
            Tone::Muted.span(format!("  {url}")),
        ])
    }

    /// The tabs; where there is no room for all names, only that of the open one.
    fn tabs(&self, width: usize) -> Line<'static> {
        let line = |has_name: &dyn Fn(Tab) -> bool| {
            let tabs = Tab::ALL.iter().zip(1..).map(|(tab, number)| {
                let name = if has_name(*tab) { tab.name() } else { "" };
                let mut span = Tone::Plain.span(format!(" {number} {name} "));
                if *tab == self.tab {
                    span.style = span.style.add_modifier(Modifier::REVERSED);
                }
                span
            });
            Line::from(tabs.collect::<Vec<_>>())
        };
        let all = line(&|_| true);
        match all.width() <= width {
            true => all,
            false => line(&|tab| tab == self.tab),
        }
    }

    fn foot(&self, width: usize) -> Line<'static> {
        let Connection::Lost(why, pause) = &self.connection else {
            let below = self.body.lines.saturating_sub(self.offset + self.body.rows);
            let more = match below {
                0 => String::new(),
                lines => format!("  {lines} more lines"),
            };
            let text = format!("q quit  Tab 1-5 view  ↑↓ PgUp PgDn scroll{more}");
            return Line::from(Tone::Muted.span(shorten(&text, width)));
        };
        let text = format!("again in {}: {why}", time(Some(*pause)));
        Line::from(Tone::Bad.span(shorten(&text, width)))
    }

    /// The lines of the tab.
    fn body(&self, width: usize) -> Vec<Line<'static>> {
        let Some(snapshot) = self.history.latest() else {
            return Vec::new();
        };
        let history = &self.history;
        match self.tab {
            Tab::Overview => {
                let mut lines = numbers(history, width);
                lines.push(Line::default());
                lines.extend(charts(history, width));
                lines.push(Line::default());
                let mut keys = panels::most_denied(&snapshot.keys);
                keys.rows.truncate(OVERVIEW_KEYS);
                lines.extend(keys.lines(width));
                lines
            }
            Tab::Keys => {
                let keys = [panels::most_denied, panels::hottest];
                stack(&keys.map(|make| make(&snapshot.keys)), width)
            }
            Tab::Rules => {
                let rules = panels::rules(history, snapshot);
                stack(&[rules, panels::outcomes(history, snapshot)], width)
            }
            Tab::Stores => {
                let mut panels = vec![panels::stores(snapshot)];
                panels.extend(gateway::panels(history, snapshot));
                stack(&panels, width)
            }
            Tab::Reloads => stack(&[panels::reloads(&snapshot.reloads)], width),
        }
    }
}

/// What a service is that sends snapshots.
pub(super) fn live(snapshot: &Snapshot) -> String {
    let up = span(snapshot.uptime_millis / 1000);
    format!("live, version {}, up {up}", snapshot.program)
}

/// Panels below each other.
pub(super) fn stack(panels: &[Panel], width: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for panel in panels {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(panel.lines(width));
    }
    lines
}

#[cfg(test)]
mod tests;
