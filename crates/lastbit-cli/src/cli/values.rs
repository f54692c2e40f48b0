//! Values of flags, in words for people: what was found, what is expected.

use std::any::TypeId;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command};
use lastbit::named::Named;

/// A command and those below it, with these parsers for every flag that takes a number.
pub fn in_words(command: Command) -> Command {
    command.mut_args(with_words).mut_subcommands(in_words)
}

fn with_words(argument: Arg) -> Arg {
    let kind = argument.get_value_parser().type_id();
    if kind == TypeId::of::<usize>() {
        argument.value_parser(whole::<usize>)
    } else if kind == TypeId::of::<u64>() {
        argument.value_parser(whole::<u64>)
    } else if kind == TypeId::of::<NonZeroUsize>() {
        argument.value_parser(whole::<NonZeroUsize>)
    } else if kind == TypeId::of::<f64>() {
        argument.value_parser(number)
    } else {
        argument
    }
}

/// A whole number; from 1 on where its type has no 0.
fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| {
        let least = if "0".parse::<T>().is_ok() { 0 } else { 1 };
        let is_whole = text.bytes().all(|byte| byte.is_ascii_digit());
        let size = if is_whole && text.len() > 19 { " of at most 19 digits" } else { "" };
        format!("found {text}, expected a whole number{size} from {least} on")
    })
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("found {text}, expected a number such as 0.1 or 1e-8"))
}

/// One of the names of an enum, each with its help.
pub fn choice<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let value = |variant: &T| PossibleValue::new(variant.name()).help(variant.help());
    PossibleValuesParser::new(T::ALL.iter().map(value))
        .map(|name| T::from_name(&name).expect("the parser knows all names"))
}

/// A time such as `2h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| format!("found {text}, expected a time such as 90s, 15m or 2h 30m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_others_are_refused_in_words() {
        assert_eq!((whole::<u64>("18446744073709551615"), whole("0")), (Ok(u64::MAX), Ok(0_usize)));
        assert_eq!(number("-1e-8"), Ok(-1e-8));
        assert_eq!(duration("2h 30m"), Ok(Duration::from_secs(9000)));
        for text in ["x", "", "-1", "1e4", "0.5", "99999999999999999999"] {
            let message = whole::<u64>(text).unwrap_err();
            assert!(message.starts_with(&format!("found {text}, expected a whole number")));
            assert!(message.ends_with(" from 0 on"), "{message}");
            assert_eq!(message.contains("at most 19 digits"), text.len() > 19);
        }
        let message = "found 0, expected a whole number from 1 on";
        assert_eq!(whole::<NonZeroUsize>("0"), Err(message.to_owned()));
        assert!(number("wide").unwrap_err().contains("found wide, expected a number"));
        assert!(duration("nan").unwrap_err().contains("found nan, expected a time"));
    }
}
