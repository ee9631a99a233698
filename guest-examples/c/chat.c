/* One question, one answer: the question is the first argument. */
#include "spear.h"

int main(int argc, char **argv) {
  int32_t session = cchat_create();
  spear_chat_say(session, "user", argc > 1 ? argv[1] : "What is WebAssembly, in one sentence?");

  int32_t response = cchat_send(session, 0);
  int failed;
  char *answer = spear_answer(response, &failed);
  if (failed) {
    fprintf(stderr, "the model did not answer: %s\n", answer);
    return 1;
  }
  puts(answer);
  return 0;
}
