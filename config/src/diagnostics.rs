//! What is wrong with a file: every error, each with its place, the other place involved and a hint.

use core::fmt;

use serde::Serialize;

use crate::place::Place;

/// Characters of a source line shown around the caret.
const SHOWN: usize = 110;
/// Errors that are told of one file.
const MOST: usize = 1000;

/// One error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// The token at fault; `None` when the file as a whole is.
    pub place: Option<Place>,
    /// Other places involved, such as where a name was used first.
    pub also: Vec<Place>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Diagnostic {
    pub(crate) fn at(place: Place, message: impl Into<String>) -> Self {
        Self { message: message.into(), place: Some(place), also: Vec::new(), hint: None }
    }

    pub(crate) fn of_file(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: None, also: Vec::new(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn also(mut self, place: Place) -> Self {
        self.also.push(place);
        self
    }
}

/// Errors found so far.
#[derive(Debug, Default)]
pub(crate) struct Sink(Vec<Diagnostic>);

impl Sink {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The errors in the order of their places, each with the line it points at.
    pub(crate) fn finish(mut self, text: &str, origin: &str) -> Diagnostics {
        self.0.sort_by(|a, b| (a.place, &a.message).cmp(&(b.place, &b.message)));
        self.0.dedup();
        let more = self.0.len().saturating_sub(MOST);
        self.0.truncate(MOST);
        let source = Source(text.lines().collect());
        for item in &mut self.0 {
            for place in item.place.iter_mut().chain(&mut item.also) {
                *place = source.within(*place);
            }
        }
        if more > 0 {
            self.0.push(Diagnostic::of_file(format!("{more} more errors are not shown")));
        }
        let excerpts = self.0.iter().map(|item| source.excerpt(item.place?)).collect();
        Diagnostics { origin: origin.to_owned(), excerpts, items: self.0 }
    }
}

/// The lines of the file.
struct Source<'t>(Vec<&'t str>);

impl<'t> Source<'t> {
    fn line(&self, number: u32) -> Option<&'t str> {
        self.0.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }

    /// The place, or the last one before it that is in the text: the end of a line or of the file has no token to show.
    fn within(&self, place: Place) -> Place {
        let last = u32::try_from(self.0.len()).unwrap_or(u32::MAX).max(1);
        let number = place.line.clamp(1, last);
        let length = self.line(number).map_or(0, length);
        let length = u32::try_from(length).unwrap_or(u32::MAX).max(1);
        let col = if number == place.line { place.col.clamp(1, length) } else { length };
        Place { line: number, col, width: place.width.clamp(1, length - col + 1) }
    }

    /// The line and a caret under the token; of a long line, the part around the token.
    fn excerpt(&self, place: Place) -> Option<String> {
        let line = self.line(place.line).unwrap_or_default();
        let column = usize::try_from(place.col).ok()?.saturating_sub(1);
        let length = length(line);
        let first = if length <= SHOWN { 0 } else { column.saturating_sub(SHOWN / 2) };
        let shown: String = part(line, first).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let (before, after) = (if first > 0 { "..." } else { "" }, if first + SHOWN < length { "..." } else { "" });
        let indent = " ".repeat(column - first + before.len());
        let left = SHOWN.saturating_sub(column - first).max(1);
        let carets = "^".repeat(usize::try_from(place.width).ok()?.clamp(1, left));
        Some(format!("  | {before}{}{after}\n  | {indent}{carets}\n", shown.trim_end()))
    }
}

/// Characters of a line.
fn length(line: &str) -> usize {
    if line.is_ascii() { line.len() } else { line.chars().count() }
}

/// What is shown of a line from its character `first` on. A line may have megabytes, and thousands of errors.
fn part(line: &str, first: usize) -> impl Iterator<Item = char> {
    let (start, skip) = if line.is_ascii() { (first, 0) } else { (0, first) };
    line.get(start..).unwrap_or_default().chars().skip(skip).take(SHOWN)
}

/// Every error in a file, in the order of their places; of more than a thousand, the first thousand and how many more.
///
/// Printed, each is `FILE:LINE:COL: message`, the source line with a caret under the token, `also here: FILE:LINE:COL`
/// for each other place and `hint: ...` where there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostics {
    origin: String,
    items: Vec<Diagnostic>,
    /// The source line of each, with its caret.
    #[serde(skip)]
    excerpts: Vec<Option<String>>,
}

impl Diagnostics {
    /// One error about the file as a whole.
    pub(crate) fn of_file(origin: &str, message: impl Into<String>) -> Self {
        Self { origin: origin.to_owned(), items: vec![Diagnostic::of_file(message)], excerpts: vec![None] }
    }

    /// The file's name, as given.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The errors; never empty.
    #[must_use]
    pub fn items(&self) -> &[Diagnostic] {
        &self.items
    }
}

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (item, excerpt)) in self.items.iter().zip(&self.excerpts).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            match item.place {
                None => writeln!(f, "{}: {}", self.origin, item.message)?,
                Some(place) => writeln!(f, "{}:{}:{}: {}", self.origin, place.line, place.col, item.message)?,
            }
            f.write_str(excerpt.as_deref().unwrap_or_default())?;
            for place in &item.also {
                writeln!(f, "  also here: {}:{}:{}", self.origin, place.line, place.col)?;
            }
            if let Some(hint) = &item.hint {
                writeln!(f, "  hint: {hint}")?;
            }
        }
        Ok(())
    }
}
