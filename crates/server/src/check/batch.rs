//! Several checks in one request of `/v1/check`: a list of them, answered by a list.

use std::fmt;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};
use tollgate_core::{Answer, Request};

use super::Check;
use super::elements::{in_element, read_elements};
use super::verdict::{ANSWER_BYTES, Extra, write_verdict};
use crate::reply::{Failure, read_json, reply};

/// The most checks of one request.
pub(crate) const CHECKS_MAX: usize = 1000;
/// The most descriptors of all checks of one request.
pub(crate) const BATCH_DESCRIPTORS_MAX: usize = 4000;

/// The checks of one request, in their order.
#[derive(Debug)]
pub(crate) struct Batch<'a>(Vec<Check<'a>>);

/// The answers to the checks of one request, in their order, as the body of its response.
#[derive(Debug)]
pub(crate) struct BatchAnswers(Vec<u8>);

/// The list in the body.
#[derive(Debug)]
struct Checks<'a>(Vec<Element<'a>>);

/// A check in a list: an object. [`Check`] by itself could be read from a list of its members.
#[derive(Debug)]
struct Element<'a>(Check<'a>);

struct ReadElement;

// === impl Batch ===

impl<'a> Batch<'a> {
    /// Whether a body is a list of checks, not one check.
    pub(crate) fn is_batch(body: &[u8]) -> bool {
        body.trim_ascii_start().starts_with(b"[")
    }

    /// Reads a list of checks.
    ///
    /// # Errors
    ///
    /// 400 with what is wrong and where, if it is not a list of checks.
    pub(crate) fn read(body: &'a [u8]) -> Result<Batch<'a>, Failure> {
        let Checks(elements) = read_json(body).map_err(|error| {
            Failure::bad_request(format!(
                "{error}; a list of checks looks like \
                 [{{\"domain\": \"shop\", \"descriptors\": [{{\"user\": \"ann\"}}]}}]"
            ))
        })?;
        let checks = elements.into_iter().map(|Element(check)| check);
        Ok(Batch(checks.collect()))
    }

    /// The requests, each of which must be within the bounds of [`Request`], and `accept` must
    /// accept it.
    ///
    /// # Errors
    ///
    /// That of the first check that is invalid: then nothing may be decided.
    pub(crate) fn requests(
        &self,
        accept: impl Fn(&Request<'_>) -> Result<(), Failure>,
    ) -> Result<Vec<Request<'_>>, Failure> {
        let mut requests = Vec::with_capacity(self.0.len());
        let mut descriptors = 0;
        for (index, check) in self.0.iter().enumerate() {
            let request = check.request_in_batch();
            let request = request.and_then(|request| accept(&request).map(|()| request));
            let request = request.map_err(|failure| failure.in_check(index))?;
            descriptors += request.descriptors.len();
            requests.push(request);
        }
        if descriptors > BATCH_DESCRIPTORS_MAX {
            return Err(Failure::bad_request(format!(
                "{descriptors} descriptors in all checks; {BATCH_DESCRIPTORS_MAX} is the most, so \
                 send the checks in several requests"
            )));
        }
        Ok(requests)
    }
}

// === impl BatchAnswers ===

impl BatchAnswers {
    /// No answers yet, with room for so many.
    pub(crate) fn with_capacity(answers: usize) -> BatchAnswers {
        let mut bytes = Vec::with_capacity(ANSWER_BYTES * answers);
        bytes.push(b'[');
        BatchAnswers(bytes)
    }

    /// Adds the answer to a request, with the id under which a denial is kept.
    pub(crate) fn add(&mut self, request: &Request<'_>, answer: &Answer, id: Option<&str>) {
        let extra = Extra {
            is_in_list: true,
            request_id: id,
            ..Extra::default()
        };
        write_verdict(request, answer, extra, self.next());
    }

    /// Adds why a request was not decided.
    pub(crate) fn add_failure(&mut self, failure: &Failure) {
        serde_json::to_writer(self.next(), &failure.problem.json())
            .expect("a value can be written to memory");
    }

    /// The bytes, which end where the next answer begins.
    fn next(&mut self) -> &mut Vec<u8> {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        &mut self.0
    }

    /// The response: 200 and the list of answers, each with the status that it would have by
    /// itself.
    pub(crate) fn response(mut self) -> Response<Bytes> {
        self.0.extend_from_slice(b"]\n");
        reply(StatusCode::OK, "application/json", self.0)
    }
}

// === impl Check ===

impl Check<'_> {
    /// As [`Check::request`], for one of several checks.
    fn request_in_batch(&self) -> Result<Request<'_>, Failure> {
        if self.reserve {
            let detail = "`reserve` in a list of checks; send this check by itself, as an object";
            return Err(Failure::bad_request(detail));
        }
        self.request()
    }
}

// === impl Failure ===

impl Failure {
    /// The same failure of the check at `index`.
    fn in_check(mut self, index: usize) -> Failure {
        self.problem.detail = in_element("checks", index, self.problem.detail);
        self
    }
}

// === values ===

impl<'de> Deserialize<'de> for Checks<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_elements(deserializer, "checks", "a list of checks", CHECKS_MAX).map(Checks)
    }
}

impl<'de> Deserialize<'de> for Element<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadElement)
    }
}

impl<'de> de::Visitor<'de> for ReadElement {
    type Value = Element<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a check, an object with `domain` and `descriptors`")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Element<'de>, A::Error> {
        Check::deserialize(MapAccessDeserializer::new(map)).map(Element)
    }
}
