// What an MCP server has besides tools, without a model: reads a resource, gets a prompt, and prints both. The same program
// exists in every language.
import { Json, LOG_INFO, logText, McpServer } from "./spear";

const URI = "demo://resource/static/document/features.md";

function count(list: Json, field: string): string {
  return list.at(field).items().length.toString();
}

/** The first line of the text at path, or the error: false if it is one. */
function show(title: string, answer: string, path: string): bool {
  const text = Json.parse(answer).text(path);
  logText(LOG_INFO, title + ": " + (text.length > 0 ? text.split("\n")[0] : Json.parse(answer).text("error.message")));
  return text.length > 0;
}

export function run(): i32 {
  const server = new McpServer("everything");
  const resources = Json.parse(server.resources());
  const prompts = Json.parse(server.prompts());
  logText(LOG_INFO, "everything has " + count(resources, "resources") + " resources, " + count(resources, "templates") + " templates and " + count(prompts, "prompts") + " prompts for this guest");
  const read = show(URI, server.read(URI), "contents[0].text");
  const got = show("args-prompt", server.prompt("args-prompt", '{"city":"Bern"}'), "messages[0].content.text");
  server.close();
  return read && got ? 0 : 3;
}
