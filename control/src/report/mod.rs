//! What the daemon tells: names put to the data plane's numbers, as JSON shapes and as columns.

pub(crate) mod build;
pub(crate) mod json;
pub(crate) mod key;
pub(crate) mod names;
pub(crate) mod shape;
pub(crate) mod table;

#[cfg(test)]
mod tests;
