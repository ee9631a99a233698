// Everything an agent does, in one small program: a chat with a tool of its own and tools of an MCP server, a direct call, two
// calls side by side, and a call that policy refuses. The same program exists in every language.
import { ChatSession, Json, LOG_ERROR, LOG_INFO, logText, McpServer, quote, SEND_AUTO_TOOL_CALL, ToolCall } from "./spear";

function add(args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  const call = new ToolCall(args_ptr, args_len, out_ptr, out_len_ptr);
  return call.reply((<i64>call.args.number("a") + <i64>call.args.number("b")).toString());
}

function say(title: string, text: string): void {
  logText(LOG_INFO, title + ": " + text);
}

function chat(): bool {
  const session = new ChatSession();
  session.tool(add, '{"name":"add","description":"Adds two whole numbers.","parameters":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}}');
  session.say("user", "How many notes are there, and what is 20 + 22?");
  const response = session.send(SEND_AUTO_TOOL_CALL);
  const failed = response.failed;
  if (failed) logText(LOG_ERROR, response.answer());
  else say("answer", response.answer());
  response.close();
  session.close();
  return !failed;
}

function note(name: string): string {
  return '{"path":' + quote(name) + "}";
}

function contentOf(result: string): string {
  return Json.parse(result).text("content[0].text");
}

export function run(): i32 {
  if (!chat()) return 1;
  const files = new McpServer("files");
  say("direct", contentOf(files.call("read_text_file", note("risks.md"))).split("\n")[0]);
  const roadmap = files.submit("read_text_file", note("roadmap.md"));
  const minutes = files.submit("read_text_file", note("minutes-2026-10-05.md"));
  const sizes = [contentOf(roadmap.result()), contentOf(minutes.result())].map<string>((text) => String.UTF8.byteLength(text).toString());
  say("parallel", sizes.join(" "));
  say("refused", Json.parse(files.call("write_file", '{"path":"new.md","content":"mine"}')).text("error.code"));
  files.close();
  return 0;
}
