use super::Json;
use std::fmt::{self, Write};

/// A text as a JSON string, including quotes and escapes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    // A String takes whatever is written to it.
    let _ = write_quoted(&mut out, text);
    out
}

fn write_quoted(out: &mut impl Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte != b'"' && byte != b'\\' && byte >= 0x20 {
            continue;
        }
        out.write_str(&text[written..at])?;
        written = at + 1;
        match byte {
            b'"' => out.write_str("\\\"")?,
            b'\\' => out.write_str("\\\\")?,
            b'\n' => out.write_str("\\n")?,
            _ => write!(out, "\\u{byte:04x}")?,
        }
    }
    out.write_str(&text[written..])?;
    out.write_char('"')
}

/// Compact JSON.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => f.write_str(if *value { "true" } else { "false" }),
            Json::Number(text) => f.write_str(text),
            Json::String(text) => write_quoted(f, text),
            Json::Array(items) => {
                f.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index > 0 { "," } else { "" })?;
                    item.fmt(f)?;
                }
                f.write_char(']')
            }
            Json::Object(members) => {
                f.write_char('{')?;
                for (index, (name, value)) in members.iter().enumerate() {
                    f.write_str(if index > 0 { "," } else { "" })?;
                    write_quoted(f, name)?;
                    f.write_char(':')?;
                    value.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object;

    #[test]
    fn any_text_can_be_quoted_and_read_again() {
        let nasty: String = (0..0x250).filter_map(char::from_u32).chain("\"\\/😀\u{2028}".chars()).collect();
        assert_eq!(Json::parse(&quote(&nasty)).unwrap().as_str(), Some(nasty.as_str()));
        assert_eq!(quote("a\u{1}\n\"b"), r#""a\u0001\n\"b""#);
    }

    #[test]
    fn objects_are_written_as_they_were_made() {
        let none: Option<i32> = None;
        let made = object! { "b": [1, 2], "a": none, "\"": "x".to_owned(), "f": -0.5, "v": vec![object! {}] };
        assert_eq!(made.to_string(), r#"{"b":[1,2],"a":null,"\"":"x","f":-0.5,"v":[{}]}"#);
        assert_eq!(Json::parse(&made.to_string()).unwrap(), made);
    }
}
