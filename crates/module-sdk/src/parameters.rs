//! The parameters of a call.

use std::fmt::Display;
use std::str::FromStr;

/// The parameters of a call: lines of the form `name=value`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parameters<'a> {
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// Parameters that a caller has encoded.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns all bytes, for operations whose parameters are not text.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the text of a parameter.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        let lines = std::str::from_utf8(self.bytes).ok()?.lines();
        lines
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|pair| pair.1)
    }

    /// Returns a parameter; the error is for the caller of the operation.
    pub fn get<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, String> {
        let text = self
            .text(name)
            .ok_or_else(|| format!("the parameter {name} is missing: give it as {name}=VALUE"))?;
        text.parse().map_err(|error| format!("the parameter {name}={text} is wrong: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_name() {
        let parameters = Parameters::new(b"level=90\nname=a=b\nempty=");
        assert_eq!(parameters.get::<u8>("level"), Ok(90));
        assert_eq!(parameters.get::<String>("name").as_deref(), Ok("a=b"));
        assert_eq!(parameters.text("empty"), Some(""));
        let error = parameters.get::<u8>("name").unwrap_err();
        assert!(error.starts_with("the parameter name=a=b is wrong: "), "{error}");
        let error = parameters.get::<u8>("lev").unwrap_err();
        assert_eq!(error, "the parameter lev is missing: give it as lev=VALUE");
        assert_eq!(Parameters::new(&[0xff]).text("x"), None);
    }
}
