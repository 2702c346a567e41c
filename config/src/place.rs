//! Where in the file a thing is written.

use core::ops::Deref;

use serde::Serialize;

/// A token's place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub col: u32,
    /// Characters of the token on that line, at least 1.
    pub width: u32,
}

impl Place {
    /// The start of the file.
    pub const START: Self = Self { line: 1, col: 1, width: 1 };
}

/// A value and the place it is written at.
///
/// Two are equal when their values are: moving a line of the file changes nothing that matters.
#[derive(Debug, Clone, Copy, Eq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it is written.
    pub place: Place,
}

impl<T> At<T> {
    /// `value`, written at `place`.
    #[must_use]
    pub const fn new(value: T, place: Place) -> Self {
        Self { value, place }
    }
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
