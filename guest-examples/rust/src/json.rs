//! A small JSON implementation without dependencies, for guests.
//!
//! For typed JSON use `serde_json`: every function with JSON also returns or accepts its text
//! ([`ToolCall::arguments`](crate::ToolCall::arguments), [`Response::body`](crate::Response::body),
//! [`Mcp::call`](crate::Mcp::call)).

mod parse;
mod write;

use std::ops::Index;

pub use parse::{MAX_DEPTH, ParseError};
pub use write::quote;

/// A JSON value.
///
/// Reading never fails: a missing value is [`Json::Null`], and `as_…` returns `None` for another type.
///
/// ```
/// use spear_guest::{Json, object};
///
/// let body = Json::parse(r#"{"choices":[{"message":{"content":"hi"}}]}"#)?;
/// assert_eq!(body["choices"][0]["message"]["content"].as_str(), Some("hi"));
/// assert!(body["no"]["such"][7].is_null());
///
/// let made = object! { "path": "notes.md", "lines": 3, "tags": ["a", "b"], "more": object! { "deep": true } };
/// assert_eq!(made.to_string(), r#"{"path":"notes.md","lines":3,"tags":["a","b"],"more":{"deep":true}}"#);
/// # Ok::<(), spear_guest::json::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Json {
    /// `null`, and every missing value.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number in its source form: no precision is lost, and a guest that reads no fractions links no code for them.
    Number(String),
    /// A text.
    String(String),
    /// `[…]`
    Array(Vec<Json>),
    /// `{…}`, in source order. The last of duplicate names wins.
    Object(Vec<(String, Json)>),
}

static NULL: Json = Json::Null;

impl Json {
    /// Reads one JSON text.
    pub fn parse(text: &str) -> Result<Json, ParseError> {
        parse::parse(text)
    }

    /// The member of an object, if it exists.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number, if this is one and fits. `2.0` and `1e3` are none: a model that was asked for an integer
    /// writes `2`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// `true` or `false`, if this is one of them.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The items of an array; empty for any other value.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::Array(items) => items,
            _ => &[],
        }
    }

    /// The members of an object; empty for any other value.
    pub fn members(&self) -> &[(String, Json)] {
        match self {
            Json::Object(members) => members,
            _ => &[],
        }
    }

    /// Whether the value is `null` or missing.
    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }
}

impl Index<&str> for Json {
    type Output = Json;

    fn index(&self, name: &str) -> &Json {
        self.get(name).unwrap_or(&NULL)
    }
}

impl Index<usize> for Json {
    type Output = Json;

    fn index(&self, index: usize) -> &Json {
        self.items().get(index).unwrap_or(&NULL)
    }
}

macro_rules! from_number {
    ($($number:ty)*) => {
        $(impl From<$number> for Json {
            fn from(number: $number) -> Json {
                Json::Number(number.to_string())
            }
        })*
    };
}

from_number!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

/// JSON has no infinity and no NaN: they become `null`.
impl From<f64> for Json {
    fn from(number: f64) -> Json {
        if number.is_finite() { Json::Number(number.to_string()) } else { Json::Null }
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::String(text.to_owned())
    }
}

impl From<&String> for Json {
    fn from(text: &String) -> Json {
        Json::String(text.clone())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::String(text)
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or(Json::Null, Into::into)
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Json {
        items.into_iter().collect()
    }
}

impl<T: Into<Json>, const N: usize> From<[T; N]> for Json {
    fn from(items: [T; N]) -> Json {
        items.into_iter().collect()
    }
}

impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Json {
        Json::Array(items.into_iter().map(Into::into).collect())
    }
}

/// The JSON text, so that a value is accepted wherever JSON text is.
impl From<Json> for String {
    fn from(value: Json) -> String {
        value.to_string()
    }
}

/// A JSON object, of anything that is or becomes a [`Json`]: `object! { "path": path, "lines": 3 }`.
#[macro_export]
macro_rules! object {
    ($($name:literal : $value:expr),* $(,)?) => {
        $crate::Json::Object(::std::vec![$((::std::string::String::from($name), $crate::Json::from($value))),*])
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_null() {
        let value = Json::parse(r#"{"a":[1,{"b":null}]}"#).unwrap();
        assert_eq!(value["a"][0].as_i64(), Some(1));
        assert!(value["a"][1]["b"].is_null() && value["a"][2].is_null() && value["x"]["y"][3].is_null());
        assert_eq!(value.get("x"), None);
        assert_eq!(value["a"][1].get("b"), Some(&Json::Null));
    }

    #[test]
    fn of_a_name_that_is_there_twice_the_last_counts() {
        assert_eq!(Json::parse(r#"{"a":1,"a":2}"#).unwrap()["a"].as_i64(), Some(2));
    }

    #[test]
    fn numbers_keep_what_was_written() {
        let value = Json::parse("[9007199254740993, -0.5e2, 18446744073709551616, 2.0]").unwrap();
        assert_eq!(value[0].as_i64(), Some(9007199254740993));
        assert_eq!((value[1].as_f64(), value[1].as_i64()), (Some(-50.0), None));
        assert_eq!((value[2].as_i64(), value[3].as_i64()), (None, None));
        assert_eq!(value.to_string(), "[9007199254740993,-0.5e2,18446744073709551616,2.0]");
        assert_eq!(Json::from(f64::NAN), Json::Null);
    }

    #[test]
    fn values_of_other_types_are_none() {
        let value = Json::parse(r#"{"text":"5","number":5,"flag":true}"#).unwrap();
        assert_eq!((value["text"].as_i64(), value["number"].as_str(), value["number"].as_bool()), (None, None, None));
        assert_eq!((value["flag"].as_bool(), value["flag"].items().len()), (Some(true), 0));
    }
}
