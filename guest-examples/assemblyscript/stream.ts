// An answer as it comes, line by line: the question is the first argument.
import { ChatSession, commandLine, print, printError } from "./spear";

export function run(): i32 {
  const args = commandLine();
  const session = new ChatSession();
  session.say("user", args.length > 1 ? args[1] : "What is WebAssembly, in two lines?");

  const stream = session.stream();
  let line = "";
  for (let event = stream.next(); event !== null; event = stream.next()) {
    if (event.text("type") != "text") continue;
    const lines = (line + event.text("text")).split("\n");
    line = lines.pop();
    for (let i = 0; i < lines.length; i++) print(lines[i]);
  }
  if (line.length > 0) print(line);
  if (!stream.response.failed) return 0;
  printError("the model did not answer: " + stream.response.answer());
  return 1;
}
