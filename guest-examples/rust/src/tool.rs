use crate::{Json, object};
use std::fmt::Display;

/// Definition of a guest tool for the model. Every parameter is required unless [`Tool::optional`] follows it.
///
/// ```
/// use spear_guest::Tool;
///
/// let tool = Tool::new("find", "Finds claims.").text("employee", "Who").integer("over_eur", "").optional();
/// assert_eq!(tool.to_json().to_string(), concat!(
///     r#"{"name":"find","description":"Finds claims.","parameters":{"type":"object","properties":{"#,
///     r#""employee":{"type":"string","description":"Who"},"over_eur":{"type":"integer"}},"required":["employee"]}}"#,
/// ));
/// ```
#[derive(Clone, Debug)]
pub struct Tool {
    name: String,
    description: String,
    properties: Vec<(String, Json)>,
    required: Vec<String>,
    schema: Option<Json>,
}

impl Tool {
    /// A tool without parameters.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Tool {
        let (name, description) = (name.into(), description.into());
        Tool { name, description, properties: Vec::new(), required: Vec::new(), schema: None }
    }

    /// A parameter that is a text.
    pub fn text(self, name: &str, description: &str) -> Tool {
        self.typed(name, "string", description)
    }

    /// A parameter that is a whole number.
    pub fn integer(self, name: &str, description: &str) -> Tool {
        self.typed(name, "integer", description)
    }

    /// A parameter that is any number.
    pub fn number(self, name: &str, description: &str) -> Tool {
        self.typed(name, "number", description)
    }

    /// A parameter that is true or false.
    pub fn boolean(self, name: &str, description: &str) -> Tool {
        self.typed(name, "boolean", description)
    }

    /// A parameter with a custom JSON schema.
    pub fn parameter(mut self, name: &str, schema: Json) -> Tool {
        self.properties.push((name.to_owned(), schema));
        self.required.push(name.to_owned());
        self
    }

    /// Makes the previous parameter optional.
    pub fn optional(mut self) -> Tool {
        if self.required.last() == self.properties.last().map(|(name, _)| name) {
            self.required.pop();
        }
        self
    }

    /// Replaces the parameters by a JSON schema for all of them.
    pub fn schema(mut self, schema: Json) -> Tool {
        self.schema = Some(schema);
        self
    }

    fn typed(self, name: &str, kind: &str, description: &str) -> Tool {
        let schema = match description {
            "" => object! { "type": kind },
            _ => object! { "type": kind, "description": description },
        };
        self.parameter(name, schema)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The definition that is sent to the model: `{"name","description","parameters"}`.
    pub fn to_json(&self) -> Json {
        let parameters = self.schema.clone().unwrap_or_else(|| {
            object! { "type": "object", "properties": Json::Object(self.properties.clone()), "required": self.required.clone() }
        });
        object! { "name": self.name.as_str(), "description": self.description.as_str(), "parameters": parameters }
    }
}

/// A tool call of the model, as passed to the closure of the tool.
#[derive(Clone, Debug)]
pub struct ToolCall {
    pub(crate) id: String,
    name: String,
    arguments: String,
    json: Json,
}

impl ToolCall {
    /// One of `_spear.pending_tool_calls`.
    pub(crate) fn of(pending: &Json) -> ToolCall {
        let text = |name: &str| pending[name].as_str().unwrap_or_default().to_owned();
        let arguments = text("arguments");
        let json = Json::parse(&arguments).unwrap_or_default();
        ToolCall { id: text("id"), name: text("name"), arguments, json }
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments as the model wrote them, for another JSON library: `serde_json::from_str(call.arguments())?`.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The arguments; [`Json::Null`] if the model wrote no JSON. For optional arguments: `call.json()["x"].as_str()`.
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// A required text argument. With `?` the model gets an error if it is not one, as with the next three.
    pub fn text(&self, name: &str) -> Result<&str, ToolError> {
        self.json[name].as_str().ok_or_else(|| self.wrong(name, "a text"))
    }

    /// A required integer argument.
    pub fn integer(&self, name: &str) -> Result<i64, ToolError> {
        self.json[name].as_i64().ok_or_else(|| self.wrong(name, "a whole number"))
    }

    /// A required number argument.
    pub fn number(&self, name: &str) -> Result<f64, ToolError> {
        self.json[name].as_f64().ok_or_else(|| self.wrong(name, "a number"))
    }

    /// A required boolean argument.
    pub fn boolean(&self, name: &str) -> Result<bool, ToolError> {
        self.json[name].as_bool().ok_or_else(|| self.wrong(name, "true or false"))
    }

    fn wrong(&self, name: &str, wanted: &str) -> ToolError {
        let found = match self.json.get(name) {
            Some(value) => value.to_string(),
            None if self.json.is_null() => "no JSON object".to_owned(),
            None => "nothing".to_owned(),
        };
        ToolError { message: format!("argument {name}: {wanted} is needed, found {found}") }
    }
}

/// Error of a tool call. The model reads it and may try something else.
///
/// Any `Display` value converts with `?`: `Err("no such part")?`, `text.parse::<u32>()?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    message: String,
}

impl ToolError {
    /// What the model reads.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The content of the tool message, in the form that the host uses for failed tools.
    pub(crate) fn content(&self) -> String {
        let error = object! { "code": "tool_exec_failed", "message": self.message.as_str() };
        object! { "error": error }.to_string()
    }
}

/// `ToolError` itself must not be `Display`: this would then be one of two ways from it to itself.
impl<E: Display> From<E> for ToolError {
    fn from(error: E) -> ToolError {
        ToolError { message: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall::of(&object! { "id": "c1", "name": "t", "arguments": arguments })
    }

    #[test]
    fn arguments_have_the_type_that_is_asked_for() {
        let given = call(r#"{"s":"x","n":2.5,"i":7,"b":false}"#);
        assert_eq!((given.text("s"), given.integer("i")), (Ok("x"), Ok(7)));
        assert_eq!((given.number("n"), given.boolean("b")), (Ok(2.5), Ok(false)));
        assert_eq!((given.id.as_str(), given.name()), ("c1", "t"));
    }

    #[test]
    fn the_model_is_told_what_is_wrong_with_them() {
        let message = |arguments: &str| call(arguments).integer("i").unwrap_err().message;
        assert_eq!(message(r#"{"i":"7"}"#), "argument i: a whole number is needed, found \"7\"");
        assert_eq!(message("{}"), "argument i: a whole number is needed, found nothing");
        assert_eq!(message("{i:7"), "argument i: a whole number is needed, found no JSON object");
        let error = ToolError::from("no \"part\"");
        assert_eq!(error.content(), r#"{"error":{"code":"tool_exec_failed","message":"no \"part\""}}"#);
    }

    #[test]
    fn a_schema_of_ones_own_replaces_the_parameters() {
        let tool = Tool::new("t", "").text("x", "").schema(object! { "type": "object" });
        assert_eq!(tool.to_json()["parameters"].to_string(), r#"{"type":"object"}"#);
        let optional = Tool::new("t", "").text("a", "").optional().optional().text("b", "");
        assert_eq!(optional.to_json()["parameters"]["required"].to_string(), r#"["b"]"#);
    }
}
