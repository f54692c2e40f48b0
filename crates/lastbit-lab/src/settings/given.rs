//! Which settings were asked for.

use serde::Serialize;
use serde_json::json;

use crate::error::Error;

/// Tells the settings that the user asked for from those that have their default.
#[derive(Clone, Copy)]
pub struct Given<'a>(&'a dyn Fn(&str) -> bool);

impl<'a> Given<'a> {
    /// `is_given` is asked with the name of a setting, in kebab-case.
    pub fn new(is_given: &'a dyn Fn(&str) -> bool) -> Self {
        Self(is_given)
    }

    /// Whether this one was asked for.
    pub fn has(self, name: &str) -> bool {
        (self.0)(name)
    }

    /// Refuses settings that have no effect beside `cause`.
    pub fn refuse_unused(self, names: &[&str], cause: &str) -> Result<(), Error> {
        match names.iter().find(|name| self.has(name)) {
            None => Ok(()),
            Some(name) => Err(Error::unused(&format!("--{name}"), cause)),
        }
    }
}

/// For settings of which only the values are known: those that differ from the default were asked for.
pub fn not_default<T: Serialize + Default>(settings: &T) -> impl Fn(&str) -> bool + use<T> {
    let (own, usual) = (json!(settings), json!(T::default()));
    move |name| own.get(name) != usual.get(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SchemeChoice;

    #[test]
    fn a_value_that_is_not_the_default_was_asked_for() {
        let is_given = not_default(&SchemeChoice { speed_y: 2.0, ..SchemeChoice::default() });
        let given = Given::new(&is_given);
        assert!(given.has("speed-y") && !given.has("speed") && !given.has("unknown"));
        assert!(given.refuse_unused(&["dx", "mu"], "a scheme").is_ok());
        let message = given.refuse_unused(&["dx", "speed-y"], "the scheme heat").unwrap_err();
        assert_eq!(
            message.to_string(),
            "--speed-y: found it with the scheme heat, expected one of the two: it has no effect there"
        );
    }
}
