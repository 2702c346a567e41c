//! From a YAML file to a checked model, and from a model to the packet core's policy.
//!
//! ```
//! let model = config::load("apiVersion: sluice/v1\n", "demo.yaml").unwrap();
//! let policy = model.policy(&mut config::Ids::default());
//! assert!(policy.ports.is_empty());
//!
//! let wrong = config::load("apiVersion: sluice/v1\nport: []\n", "demo.yaml").unwrap_err();
//! assert!(wrong.to_string().starts_with("demo.yaml:2:1: unknown key \"port\" in the configuration\n"));
//! ```

mod check;
mod diagnostics;
mod grammar;
mod ids;
pub mod limits;
mod lower;
pub mod model;
mod place;
mod read;
mod schema;
mod shape;
mod tree;
mod value;

use std::{fs::File, io::Read as _, os::unix::fs::OpenOptionsExt as _, path::Path};

pub use diagnostics::{Diagnostic, Diagnostics};
pub use ids::Ids;
pub use model::Model;
pub use place::{At, Place};
pub use schema::schema;
pub use shape::nearest;

use diagnostics::Sink;

/// Reads and checks a configuration. `origin` is the name that errors give to it, a file's path as a rule.
///
/// # Errors
/// Every error there is in it; after one in the YAML itself, that one only.
pub fn load(text: &str, origin: &str) -> Result<Model, Diagnostics> {
    if text.len() > tree::MAX_BYTES {
        let message = format!("the file is longer than {} bytes, the most that is read", tree::MAX_BYTES);
        return Err(Diagnostics::of_file(origin, message));
    }
    let mut sink = Sink::default();
    let model = tree::parse(text, &mut sink).map(|root| read::read(&root, &mut sink));
    match model {
        Some(model) if sink.is_empty() => Ok(model),
        _ => Err(sink.finish(text, origin)),
    }
}

/// Reads and checks the configuration in a file.
///
/// # Errors
/// As [`load`] and [`read_text`].
pub fn load_file(path: &Path) -> Result<Model, Diagnostics> {
    load(&read_text(path)?, &path.display().to_string())
}

/// `open(2)`: does not wait for the other end of a pipe. The same on every architecture the engine is built for.
const O_NONBLOCK: i32 = 0o4000;

/// Reads the text of a configuration file. Never waits for a writer, and never reads more than a file may have.
///
/// # Errors
/// When it can not be read, is no regular file, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, Diagnostics> {
    let origin = path.display().to_string();
    let unreadable =
        |error: std::io::Error| Diagnostics::of_file(&origin, format!("the file can not be read: {error}"));
    let irregular = || Diagnostics::of_file(&origin, "this is not a regular file".to_owned());
    // Before it is opened, since to open a device may do something; and after, since it may be another file by then.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(irregular());
    }
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(irregular());
    }
    let mut bytes = Vec::new();
    // One byte more than is allowed is enough to see that there is too much.
    let limit = u64::try_from(tree::MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        Diagnostics::of_file(&origin, format!("the file is not UTF-8 text: see line {line}"))
    })
}
