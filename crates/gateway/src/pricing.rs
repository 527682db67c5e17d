//! What the responses to a route's requests say about what these requests cost.

use http::{HeaderMap, StatusCode};
use tollgate_core::COST_MAX;
use tollgate_engine::RESERVED_LIMITS_MAX;
use tollgate_http::{
    Classifier, CountWhenSettings, DescriptorCost, Identity, IdentitySettings, InvalidSetting,
    JsonPointer, ResponseCost, read_units,
};

/// What the units of each descriptor of a route depend on, by the index of the descriptor's
/// settings.
#[derive(Debug)]
pub(crate) struct Pricing(Vec<Price>);

/// What the units of one descriptor depend on.
#[derive(Debug)]
struct Price {
    /// `None` if every response counts.
    count_when: Option<CountWhenSettings>,
    /// `None` for one unit.
    cost: Option<DescriptorCost>,
}

/// What is known of a descriptor's units when the head of a response comes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PriceAtHead<'p> {
    /// Its units.
    Known(u64),
    /// Nothing: what was reserved stays charged, for this reason.
    Unknown(&'static str),
    /// It is known when the response has ended: the bytes of the request's body.
    RequestBytes,
    /// The bytes of the response's body.
    ResponseBytes,
    /// A number in the body.
    Json(&'p JsonPointer),
    /// A trailer.
    Trailer(&'p http::HeaderName),
}

// === impl Pricing ===

impl Pricing {
    /// # Errors
    ///
    /// [`InvalidSetting`] if a request might meet more limits than can be reserved.
    pub(crate) fn check(identity: &IdentitySettings) -> Result<(), InvalidSetting> {
        let count = identity.descriptors.len();
        if !identity.needs_response() || count <= RESERVED_LIMITS_MAX {
            return Ok(());
        }
        let problem = format!(
            "{count} descriptors, and one of them is charged by its response (`count_when`, `cost`)"
        );
        let instead = format!(
            "write at most {RESERVED_LIMITS_MAX}: as many limits can be reserved for a request"
        );
        Err(InvalidSetting::new("descriptors", problem, instead))
    }

    /// The prices of a route with such an identity; `None` if no response changes any.
    pub(crate) fn new(identity: &IdentitySettings, classifier: &Classifier) -> Option<Pricing> {
        if !identity.needs_response() {
            return None;
        }
        let descriptors = identity.descriptors.iter().enumerate();
        let prices = descriptors.map(|(index, descriptor)| Price {
            count_when: descriptor.count_when.clone(),
            cost: classifier.cost(index).cloned(),
        });
        Some(Pricing(prices.collect()))
    }

    /// Whether a request depends on its response: its descriptors that do may have been skipped.
    pub(crate) fn applies_to(&self, identity: &Identity<'_>) -> bool {
        let mut descriptors = identity.descriptors.iter();
        descriptors.any(|descriptor| {
            let price = &self.0[descriptor.index];
            price.count_when.is_some() || price.of_response().is_some()
        })
    }

    /// Whether the cost of a descriptor with these settings is in the body of the response.
    pub(crate) fn reads_body(&self, index: usize) -> bool {
        matches!(self.0[index].of_response(), Some(ResponseCost::Json(_)))
    }

    /// Whether it is in a trailer of the response.
    pub(crate) fn reads_trailer(&self, index: usize) -> bool {
        matches!(self.0[index].of_response(), Some(ResponseCost::Trailer(_)))
    }

    /// Whether it is the length of the request's body.
    pub(crate) fn counts_request(&self, index: usize) -> bool {
        matches!(
            self.0[index].of_response(),
            Some(ResponseCost::RequestBytes)
        )
    }

    /// What the head of a response says about the units of a descriptor with these settings, of
    /// which some are reserved.
    pub(crate) fn at_head(
        &self,
        index: usize,
        reserved: u64,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> PriceAtHead<'_> {
        let price = &self.0[index];
        let counts = |count_when: &CountWhenSettings| count_when.counts(status);
        if !price.count_when.as_ref().is_none_or(counts) {
            return PriceAtHead::Known(0);
        }
        match price.of_response() {
            None => PriceAtHead::Known(reserved),
            Some(ResponseCost::Header(name)) => match read_units(headers, name) {
                Some(units) => PriceAtHead::Known(units.min(COST_MAX)),
                None if headers.contains_key(name) => PriceAtHead::Unknown("malformed"),
                None => PriceAtHead::Unknown("missing"),
            },
            Some(ResponseCost::RequestBytes) => PriceAtHead::RequestBytes,
            Some(ResponseCost::ResponseBytes) => PriceAtHead::ResponseBytes,
            Some(ResponseCost::Json(pointer)) => PriceAtHead::Json(pointer),
            Some(ResponseCost::Trailer(name)) => PriceAtHead::Trailer(name),
        }
    }
}

// === impl Price ===

impl Price {
    fn of_response(&self) -> Option<ResponseCost<'_>> {
        self.cost.as_ref()?.of_response()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn pricing(descriptors: &[Value]) -> Result<Option<Pricing>, InvalidSetting> {
        let settings = json!({ "descriptors": descriptors });
        let settings = serde_json::from_value(settings).unwrap();
        Pricing::check(&settings)?;
        Ok(Pricing::new(
            &settings,
            &Classifier::with_responses(&settings).unwrap(),
        ))
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
            let at_head = |index| match both.at_head(index, 1, status, &HeaderMap::new()) {
                PriceAtHead::Known(units) => units,
                other => panic!("{other:?}"),
            };
            assert_eq!([0, 1].map(at_head), units);
        }
        let mut many = vec![plain; RESERVED_LIMITS_MAX];
        assert!(pricing(&many).unwrap().is_none());
        many[0] = counted;
        assert!(pricing(&many).unwrap().is_some());
        many.push(many[0].clone());
        assert_eq!(pricing(&many).unwrap_err().at, "descriptors");
    }
}
