//! What serde finds wrong with a value.

use std::fmt;

use serde::de::{Error, Unexpected};

/// What is wrong with a value.
#[derive(Debug)]
pub(super) enum Wrong {
    /// It has been reported.
    Reported,
    UnknownKey {
        key: String,
        known: &'static [&'static str],
    },
    UnknownChoice {
        choice: String,
        known: &'static [&'static str],
    },
    MissingKey(&'static str),
    /// A choice that has a value, without one.
    BareChoice,
    /// A text that is not what its type expects, such as "a length of time such as `15m`".
    Text {
        message: String,
        expected: String,
    },
    Other(String),
}

// === impl Wrong ===

impl Wrong {
    /// What is wrong with a text, whose type expects `expected`.
    pub(super) fn of_text(wrong: Wrong, expected: String) -> Wrong {
        match wrong {
            Wrong::Other(message) => Wrong::Text { message, expected },
            wrong => wrong,
        }
    }
}

impl std::error::Error for Wrong {}

/// Never shown: [`super::Value::report`] words what is reported.
impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Error for Wrong {
    fn custom<T: fmt::Display>(message: T) -> Wrong {
        Wrong::Other(message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn serde::de::Expected) -> Wrong {
        match unexpected {
            Unexpected::UnitVariant => Wrong::BareChoice,
            _ => Wrong::Other(format!("this must be {expected}, and is {unexpected}")),
        }
    }

    fn unknown_variant(choice: &str, known: &'static [&'static str]) -> Wrong {
        let choice = choice.to_owned();
        Wrong::UnknownChoice { choice, known }
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Wrong {
        let key = key.to_owned();
        Wrong::UnknownKey { key, known }
    }

    fn missing_field(key: &'static str) -> Wrong {
        Wrong::MissingKey(key)
    }
}
