//! Texts of scalars as typed values. Each refusal says what was expected, what was found and, where it can, what to write.

pub(crate) mod address;
pub(crate) mod duration;
pub(crate) mod mac;
pub(crate) mod name;
pub(crate) mod number;
pub(crate) mod packet;

use crate::{diagnostics::Diagnostic, place::Place};

/// Why a text is not a value of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// A text with a semicolon before its advice, if it has any.
    pub(crate) fn with_advice(text: &str) -> Self {
        match text.split_once("; ") {
            Some((message, advice)) => Self::new(message).hint(advice),
            None => Self::new(text),
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The fault as an error at `place`, in the value of `key`.
    pub(crate) fn at(self, place: Place, key: &str) -> Diagnostic {
        Diagnostic { hint: self.hint, ..Diagnostic::at(place, format!("{key}: {}", self.message)) }
    }
}
