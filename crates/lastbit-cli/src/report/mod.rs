//! placeholder until merged
use crate::{
    error::Error,
    record::{Record, Store},
};
pub fn render(_: &[(Store, Record)]) -> Result<String, Error> {
    Ok(String::new())
}
