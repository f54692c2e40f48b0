//! Which program computed a result: every record says so.

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of this program, with `+changes` where the working tree differed from it.
pub const COMMIT: &str = env!("LASTBIT_COMMIT");
