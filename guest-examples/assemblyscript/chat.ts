// One question, one answer: the question is the first argument.
import { ChatSession, commandLine, print, printError } from "./spear";

export function run(): i32 {
  const args = commandLine();
  const session = new ChatSession();
  session.say("user", args.length > 1 ? args[1] : "What is WebAssembly, in one sentence?");

  const response = session.send();
  const answer = response.answer();
  if (response.failed) {
    printError("the model did not answer: " + answer);
    return 1;
  }
  print(answer);
  return 0;
}
