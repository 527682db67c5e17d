#![allow(clippy::unwrap_used)]

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::{Value, json};
use tollgate_core::is_printable;

use super::super::sample::{document, snapshot};
use super::*;
use crate::admin_client::NotAnswered;

const URL: &str = "http://127.0.0.1:6070";

/// A screen after half a minute.
fn screen() -> Screen {
    let mut screen = Screen::new(URL.to_owned(), true);
    for second in 90..120 {
        let update = Update::Snapshot(Box::new(snapshot(second)));
        assert!(matches!(screen.update(update), Next::Continue));
    }
    screen
}

fn terminal(width: u16, height: u16) -> Terminal<TestBackend> {
    Terminal::new(TestBackend::new(width, height)).unwrap()
}

/// The text of the screen, without the spaces at the ends of its lines.
fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = terminal(width, height);
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content().chunks(usize::from(width.max(1)));
    let rows = rows.map(|row| {
        let mut line = String::new();
        let mut skipped = 0;
        for cell in row {
            // A wide character takes its own cell and the one after it.
            if skipped == 0 {
                line.push_str(cell.symbol());
                skipped = crate::top::panel::width(cell.symbol()).max(1);
            }
            skipped -= 1;
        }
        line.trim_end().to_owned() + "\n"
    });
    rows.collect()
}

fn press(screen: &mut Screen, code: KeyCode) -> Next {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn assert_screen(name: &str, shown: &str) {
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, shown);
    });
}

#[test]
fn every_view_fits_a_terminal_of_80_by_24() {
    let mut screen = screen();
    for tab in ["overview", "keys", "rules", "stores", "reloads"] {
        assert_screen(tab, &drawn(&mut screen, 80, 24));
        press(&mut screen, KeyCode::Tab);
    }
}

#[test]
fn a_narrow_terminal_has_fewer_columns() {
    let mut screen = screen();
    assert_screen("narrow_overview", &drawn(&mut screen, 36, 12));
    press(&mut screen, KeyCode::Char('2'));
    assert_screen("narrow_keys", &drawn(&mut screen, 36, 12));
}

#[test]
fn no_size_is_too_small_and_nothing_that_was_sent_controls_the_terminal() {
    let mut screen = screen();
    for digit in '1'..='5' {
        press(&mut screen, KeyCode::Char(digit));
        press(&mut screen, KeyCode::End);
        for (width, height) in (0..30).flat_map(|width| [0, 1, 2, 3, 5, 40].map(|h| (width, h))) {
            let shown = drawn(&mut screen, width, height);
            assert!(shown.chars().all(|one| one == '\n' || is_printable(one)));
        }
    }
    press(&mut screen, KeyCode::Char('2'));
    assert!(drawn(&mut screen, 100, 30).contains("user=a\\u{1b}[2J\\u{9b}2J\\u{202e}b"));
}

#[test]
fn keys_scroll_within_the_view_and_quit() {
    let mut screen = screen();
    press(&mut screen, KeyCode::Char('4'));
    assert!(drawn(&mut screen, 80, 8).contains("18 more lines"));
    press(&mut screen, KeyCode::Down);
    assert!(drawn(&mut screen, 80, 8).contains("17 more lines"));
    for _ in 0..100 {
        press(&mut screen, KeyCode::PageDown);
    }
    let end = drawn(&mut screen, 80, 8);
    assert!(
        end.contains("(no route)") && !end.contains("more lines"),
        "{end}"
    );
    // A terminal that has become higher shows everything again.
    assert!(drawn(&mut screen, 80, 40).contains("memory: live keys"));
    press(&mut screen, KeyCode::End);
    press(&mut screen, KeyCode::Home);
    assert!(drawn(&mut screen, 80, 8).contains("18 more lines"));
    press(&mut screen, KeyCode::Left);
    assert!(drawn(&mut screen, 80, 24).contains("Budget: "));
    let control = |code| KeyEvent::new(code, KeyModifiers::CONTROL);
    assert!(matches!(
        screen.press(control(KeyCode::Char('c'))),
        Next::Quit
    ));
    assert!(matches!(press(&mut screen, KeyCode::Char('q')), Next::Quit));
    // An arrow begins with the byte of Escape, which may arrive alone.
    for code in [KeyCode::Char('c'), KeyCode::Esc] {
        assert!(matches!(press(&mut screen, code), Next::Continue));
    }
}

#[test]
fn a_lost_connection_is_shown_over_what_was_known_until_it_is_back() {
    let mut screen = screen();
    let failure = || Failure::new(URL.parse().unwrap(), NotAnswered::Ended);
    let pause = Duration::from_millis(500);
    screen.update(Update::Lost(failure(), pause));
    let shown = drawn(&mut screen, 100, 24);
    assert!(
        shown.starts_with("Tollgate  no connection  http://127.0.0.1:6070\n"),
        "{shown}"
    );
    assert!(shown.contains("again in 500 ms: http://127.0.0.1:6070: the service closed"));
    assert!(shown.contains("alice"));
    screen.update(Update::Snapshot(Box::new(snapshot(1))));
    assert!(drawn(&mut screen, 100, 24).contains("live, version 0.1.0, up 1 s"));
    assert!(matches!(
        screen.update(Update::Failed(failure())),
        Next::Fail(_)
    ));
}

#[test]
fn without_colours_there_are_none() {
    for has_colours in [true, false] {
        let mut screen = screen();
        screen.has_colours = has_colours;
        let mut found = false;
        for _ in Tab::ALL {
            let mut terminal = terminal(80, 40);
            terminal.draw(|frame| screen.draw(frame)).unwrap();
            let cells = terminal.backend().buffer().content();
            found |= cells
                .iter()
                .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
            press(&mut screen, KeyCode::Tab);
        }
        assert_eq!(found, has_colours);
    }
}

/// A history of two seconds, each of them changed by the function.
fn history(change: impl Fn(&mut Value, u64)) -> History {
    let mut history = History::default();
    for second in [100, 101] {
        let mut document = document(second);
        change(&mut document, second);
        history.push(serde_json::from_value(document).unwrap());
    }
    history
}

/// The lines of a panel that begin with this.
fn line_of(panel: &Panel, start: &str) -> String {
    let lines = panel.lines(80).into_iter().map(|line| line.to_string());
    lines
        .into_iter()
        .find(|line| line.starts_with(start))
        .unwrap()
}

#[test]
fn a_long_error_of_a_store_hides_no_value() {
    let history = history(|one, _| one["stores"][0]["trouble"] = json!("x".repeat(100)));
    let panel = panels::stores(history.latest().unwrap());
    let lines: Vec<String> = panel.lines(80).iter().map(Line::to_string).collect();
    for line in &lines {
        assert!(crate::top::panel::width(line) <= 80, "{line}");
        assert_eq!(line.contains('…'), line.starts_with("  why"), "{line}");
    }
    let value = line_of(&panel, "memory: live keys");
    assert!(value.trim_end().ends_with(" 1,234"), "{value}");
}

/// The first words of the lines of an upstream, a route and a rule that the earlier of two
/// snapshots, with so many of each, lacks.
fn lines_of_newcomers(most: u64) -> [String; 3] {
    let history = history(|one, second| {
        let names = (0..most).map(|number| match (number, second) {
            (0, 101) => "late".to_owned(),
            _ => format!("n{number}"),
        });
        let names: Vec<String> = names.collect();
        let counts = json!({"denied": 9_000});
        let rules = names.iter().map(|name| {
            json!({"domain": "shop", "rule": name, "limit": null, "budget": null, "counts": counts})
        });
        one["rules"] = rules.collect();
        let routes = names.iter();
        let routes = routes.map(|name| json!({"route": name, "counts": counts}));
        one["gateway"]["routes"] = routes.collect();
        let upstreams = names.iter().map(|name| {
            json!({"upstream": name, "answers": 9_000, "errors": {}, "times": [[0.004, 9_000]]})
        });
        one["gateway"]["upstreams"] = upstreams.collect();
    });
    let snapshot = history.latest().unwrap();
    let mut panels = gateway::panels(&history, snapshot);
    panels.push(panels::rules(&history, snapshot));
    let starts = ["late", "late", "shop: late"];
    let lines = panels.iter().zip(starts).map(|(panel, start)| {
        let line = line_of(panel, start);
        let words: Vec<&str> = line[start.len()..].split_whitespace().take(3).collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().try_into().unwrap()
}

/// It has a count, but how much of that is new is unknown.
#[test]
fn what_an_earlier_snapshot_had_no_room_for_has_no_rate() {
    let [upstream, route, _] = lines_of_newcomers(49);
    assert_eq!([upstream, route], ["9,000 4 ms", "9,000 0 9,000"]);
    let [upstream, route, rule] = lines_of_newcomers(50);
    assert_eq!([upstream, route], ["– – –", "– 0 9,000"]);
    assert_eq!(rule, "9,000 9,000 9,000");
    let [_, _, rule] = lines_of_newcomers(100);
    assert_eq!(rule, "– – 9,000");
}

#[test]
fn what_a_list_or_a_concurrency_limit_denies_has_not_failed() {
    let history = history(|one, _| {
        let counts = json!({"forwarded": 1, "denied": 2, "deny_listed": 30, "in_flight": 400});
        one["gateway"]["routes"] = json!([{"route": "api", "counts": counts}]);
    });
    let panels = gateway::panels(&history, history.latest().unwrap());
    let line = line_of(&panels[1], "api");
    let columns: Vec<&str> = line.split_whitespace().skip(2).collect();
    assert_eq!(columns, ["1", "432", "0", "0"]);
}
