//! Rules that set what only shared stores have, in domains that are in memory.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_core::Sharing;
use tollgate_rules::{RuleSet, RuleView};

/// A value that rules of one domain set to no effect, since their store is in memory.
#[derive(Clone, Debug)]
pub struct Unshared {
    /// The domain.
    pub domain: String,
    /// The name of its store.
    pub store: String,
    /// The setting as in a rules file: `mode: leased`.
    pub setting: String,
    /// The first of the rules.
    pub first: RuleView,
    /// How many they are.
    pub rules: usize,
}

/// Finds what rules set to no effect: an item for each value in a domain. `store_of` is the name of
/// a domain's store if that is in memory. `default` are the settings of rules that have none, which
/// are meant for rules in shared stores.
pub fn find_unshared<'s>(
    rules: &RuleSet,
    default: Sharing,
    store_of: impl Fn(&str) -> Option<&'s str>,
) -> Vec<Unshared> {
    let mut found: BTreeMap<(String, String), Unshared> = BTreeMap::new();
    for view in rules.rules().filter(|view| view.limit.is_some()) {
        let Some(store) = store_of(&view.rule.domain) else {
            continue;
        };
        for setting in settings_of(&view, default) {
            let place = (view.rule.domain.clone(), setting.clone());
            let of_value = found.entry(place).or_insert_with(|| Unshared {
                domain: view.rule.domain.clone(),
                store: store.to_owned(),
                setting,
                first: view.clone(),
                rules: 0,
            });
            of_value.rules += 1;
        }
    }
    found.into_values().collect()
}

/// What a rule sets that is not the default.
fn settings_of(view: &RuleView, default: Sharing) -> impl Iterator<Item = String> {
    let (usual, own) = (Sharing::default(), view.sharing);
    let has_mode = ![usual.mode, default.mode].contains(&own.mode);
    let choices = [usual.on_store_error, default.on_store_error];
    let has_on_error = !choices.contains(&own.on_store_error);
    let instances = own.instances.filter(|_| own.instances != default.instances);
    [
        has_mode.then(|| format!("mode: {}", own.mode)),
        has_on_error.then(|| format!("on_store_error: {}", own.on_store_error)),
        instances.map(|instances| format!("instances: {instances}")),
    ]
    .into_iter()
    .flatten()
}

// === impl Unshared ===

impl fmt::Display for Unshared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unshared {
            domain,
            store,
            setting,
            first,
            rules,
        } = self;
        write!(f, "`{setting}` of ")?;
        let first = first.rule.shown();
        match rules {
            1 => write!(f, "`{first}`")?,
            rules => write!(f, "{rules} rules, the first `{first}`,")?,
        }
        write!(
            f,
            " in `{domain}` has no effect: its store, `{store}`, is in memory"
        )
    }
}
