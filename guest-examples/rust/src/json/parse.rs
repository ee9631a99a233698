use super::Json;
use std::fmt;

/// Maximum nesting of arrays and objects, the same as in the host.
pub const MAX_DEPTH: usize = 256;

/// Position of a JSON syntax error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    what: &'static str,
    at: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no JSON: {} at byte {}", self.what, self.at)
    }
}

impl std::error::Error for ParseError {}

type Parsed<T> = Result<T, ParseError>;

pub(super) fn parse(text: &str) -> Parsed<Json> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.value()?;
    reader.space();
    if reader.at < text.len() { reader.fail("something after the value") } else { Ok(value) }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, what: &'static str) -> Parsed<T> {
        Err(ParseError { what, at: self.at })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Goes past `byte` if it comes next, whatever space is before it.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self) -> Parsed<Json> {
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(_) => self.fail("no value"),
            None => self.fail("it ends"),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Parsed<Json> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail("no value");
        }
        self.at += word.len();
        Ok(value)
    }

    fn nested(&mut self, read: fn(&mut Self) -> Parsed<Json>) -> Parsed<Json> {
        if self.depth == MAX_DEPTH {
            return self.fail("too many levels");
        }
        self.depth += 1;
        self.at += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Parsed<Json> {
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value()?);
            if self.take(b']') {
                return Ok(Json::Array(items));
            }
            if !self.take(b',') {
                return self.fail("no comma");
            }
        }
    }

    fn object(&mut self) -> Parsed<Json> {
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.fail("no name");
            }
            let name = self.string()?;
            if !self.take(b':') {
                return self.fail("no colon");
            }
            members.push((name, self.value()?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return self.fail("no comma");
            }
        }
    }

    fn digits(&mut self) -> Parsed<()> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return self.fail("no digit");
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Parsed<Json> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        let leading_zero = self.peek() == Some(b'0');
        let first = self.at;
        self.digits()?;
        if leading_zero && self.at > first + 1 {
            return self.fail("a number that begins with 0");
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(Json::Number(self.text[start..self.at].to_owned()))
    }

    /// Precondition: a quote comes next.
    fn string(&mut self) -> Parsed<String> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let run = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            // A run ends at an ASCII byte, so never inside a character.
            out.push_str(&self.text[run..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return self.fail("a control character in a text"),
                None => return self.fail("a text without end"),
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        self.at += 1;
        let byte = self.peek();
        let plain = match byte {
            Some(b'"' | b'\\' | b'/') => byte.map(char::from),
            Some(b'b') => Some('\u{8}'),
            Some(b'f') => Some('\u{c}'),
            Some(b'n') => Some('\n'),
            Some(b'r') => Some('\r'),
            Some(b't') => Some('\t'),
            _ => None,
        };
        match plain {
            Some(character) => {
                self.at += 1;
                Ok(character)
            }
            None if byte == Some(b'u') => self.unicode(),
            None => self.fail("an unknown escape"),
        }
    }

    /// Half a surrogate pair stands for no character: U+FFFD, as everywhere in the ABI.
    fn unicode(&mut self) -> Parsed<char> {
        let first = self.unit()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let back = self.at;
            self.at += 1;
            let second = self.unit()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// The four digits after `u`, where the reader stands.
    fn unit(&mut self) -> Parsed<u32> {
        let start = self.at + 1;
        let digits = self.text.as_bytes().get(start..start + 4);
        let valid = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        match valid {
            Some(digits) => {
                self.at = start + 4;
                Ok(digits.iter().fold(0, |unit, &digit| unit << 4 | char::from(digit).to_digit(16).unwrap_or(0)))
            }
            None => self.fail("no \\u with four digits"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> String {
        parse(json).unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn texts_are_decoded() {
        assert_eq!(text(r#""Zürich 😀\n\t\"\\\/\b\f\r""#), "Zürich 😀\n\t\"\\/\u{8}\u{c}\r");
        assert_eq!(text(r#""\u00e9\ud83d\ude00""#), "é😀");
        assert_eq!(text(r#""\ud800x\udc00\ud800\ud800""#), "\u{fffd}x\u{fffd}\u{fffd}\u{fffd}");
    }

    #[test]
    fn space_is_allowed_around_everything() {
        let value = parse(" { \"a\" :\t[ 1 , true\n] , \"b\" : { } , \"c\" : [ ] } ").unwrap();
        assert_eq!(value.to_string(), r#"{"a":[1,true],"b":{},"c":[]}"#);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for broken in [
            "",
            " ",
            "{",
            "[1",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "\"x",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\\u12\"",
            "tru",
            "nul",
            "01",
            "-",
            "1.",
            "1e",
            "+1",
            ".5",
            "1 2",
            "[1]]",
            "\"a\u{1}b\"",
            "'a'",
            "\"\\u+123\"",
            "é",
            "\"\\é\"",
        ] {
            assert!(parse(broken).is_err(), "{broken}");
        }
        assert_eq!(parse("[1,x]").unwrap_err().to_string(), "no JSON: no value at byte 3");
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(parse(&nested(MAX_DEPTH + 1)).unwrap_err().what, "too many levels");
        assert!(parse(&"[".repeat(1_000_000)).is_err());
    }
}
