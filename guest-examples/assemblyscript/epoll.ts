// Two questions asked at the same time, answers printed in the order in which they arrive.
import { ChatResponse, ChatSession, Epoll, EPOLLIN, print } from "./spear";

export function run(): i32 {
  const questions = ["Tell me a long story about the sea.", "Name one colour."];
  const responses: ChatResponse[] = [];
  const epoll = new Epoll();

  for (let i = 0; i < questions.length; i++) {
    const session = new ChatSession();
    session.setNonblocking();
    session.say("user", questions[i]);
    responses.push(session.send());
    epoll.add(responses[i].fd, EPOLLIN);
    print("asked " + i.toString() + ": " + questions[i]);
  }

  let failures = 0;
  for (let open = responses.length; open > 0; ) {
    const ready = epoll.wait(-1);
    for (let r = 0; r < ready.length; r++) {
      for (let i = 0; i < responses.length; i++) {
        if (responses[i].fd != ready[r].fd) continue;
        print("answer " + i.toString() + ": " + responses[i].answer());
        if (responses[i].failed) failures++;
        responses[i].close();
        open--;
      }
    }
  }
  epoll.close();
  return failures;
}
