// A tool of the guest: the model calls `sum`, the host calls back into this module, the model uses the result.
import { ChatSession, print, SEND_AUTO_TOOL_CALL, ToolCall } from "./spear";

function sum(args_ptr: usize, args_len: u32, out_ptr: usize, out_len_ptr: usize): i32 {
  const call = new ToolCall(args_ptr, args_len, out_ptr, out_len_ptr);
  const total = <i64>call.args.number("a") + <i64>call.args.number("b");
  const answer = '{"sum":' + total.toString() + "}";
  print("tool sum " + call.source + " -> " + answer);
  return call.reply(answer);
}

export function run(): i32 {
  const session = new ChatSession();
  session.tool(
    sum,
    '{"name":"sum","description":"Adds two whole numbers.","parameters":{"type":"object",' +
      '"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}}',
  );
  session.say("user", "What is 2 + 40? Use the tool.");

  const response = session.send(SEND_AUTO_TOOL_CALL);
  print(response.answer());
  return response.failed ? 1 : 0;
}
