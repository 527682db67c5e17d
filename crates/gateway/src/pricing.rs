//! What the responses to a route's requests say about what these requests cost.

use tollgate_engine::RESERVED_LIMITS_MAX;
use tollgate_http::{CountWhenSettings, Identity, IdentitySettings, InvalidSetting};

use http::StatusCode;

/// What the units of each descriptor of a route depend on, by the index of the descriptor's
/// settings.
#[derive(Debug)]
pub(crate) struct Pricing(Vec<Price>);

/// What the units of one descriptor depend on.
#[derive(Debug)]
struct Price {
    /// `None` if every response counts.
    count_when: Option<CountWhenSettings>,
}

// === impl Pricing ===

impl Pricing {
    /// The prices of a route; `None` if no response changes any.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] if a request might meet more limits than can be reserved.
    pub(crate) fn new(identity: &IdentitySettings) -> Result<Option<Pricing>, InvalidSetting> {
        let descriptors = &identity.descriptors;
        if !identity.needs_response() {
            return Ok(None);
        }
        if descriptors.len() > RESERVED_LIMITS_MAX {
            let problem = format!(
                "{} descriptors, and one of them has a `count_when`",
                descriptors.len()
            );
            let instead = format!(
                "write at most {RESERVED_LIMITS_MAX}: as many limits can be reserved for a request"
            );
            return Err(InvalidSetting::new("descriptors", problem, instead));
        }
        let prices = descriptors.iter().map(|descriptor| Price {
            count_when: descriptor.count_when.clone(),
        });
        Ok(Some(Pricing(prices.collect())))
    }

    /// Whether a request depends on its response: its descriptors that do may have been skipped.
    pub(crate) fn applies_to(&self, identity: &Identity<'_>) -> bool {
        let mut descriptors = identity.descriptors.iter();
        descriptors.any(|descriptor| self.0[descriptor.index].count_when.is_some())
    }

    /// The units of a request with a descriptor of these settings, given the status of its response
    /// and what was reserved.
    pub(crate) fn units(&self, index: usize, status: StatusCode, reserved: u64) -> u64 {
        match &self.0[index].count_when {
            Some(count_when) if !count_when.counts(status) => 0,
            _ => reserved,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn pricing(descriptors: &[Value]) -> Result<Option<Pricing>, InvalidSetting> {
        let settings = json!({ "descriptors": descriptors });
        Pricing::new(&serde_json::from_value(settings).unwrap())
    }

    #[test]
    fn only_what_a_response_changes_is_reserved_and_not_too_much_of_it() {
        let plain = json!({"entries": [{"key": "path", "from": "path"}]});
        let mut counted = plain.clone();
        counted["count_when"] = json!({"status": [401, "5xx"]});
        assert!(pricing(&[plain.clone(), plain.clone()]).unwrap().is_none());
        let both = pricing(&[plain.clone(), counted.clone()]).unwrap().unwrap();
        for (status, units) in [(200, [1, 0]), (401, [1, 1]), (403, [1, 0]), (502, [1, 1])] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!([0, 1].map(|index| both.units(index, status, 1)), units);
        }
        let mut many = vec![plain; RESERVED_LIMITS_MAX];
        assert!(pricing(&many).unwrap().is_none());
        many[0] = counted;
        assert!(pricing(&many).unwrap().is_some());
        many.push(many[0].clone());
        assert_eq!(pricing(&many).unwrap_err().at, "descriptors");
    }
}
