/* An answer as it comes: the question is the first argument. */
#include "spear.h"

int main(int argc, char **argv) {
  int32_t session = cchat_create();
  spear_chat_say(session, "user", argc > 1 ? argv[1] : "What is WebAssembly, in two lines?");

  spear_stream stream = spear_stream_of(cchat_send(session, SPEAR_SEND_STREAM));
  for (const char *event; (event = spear_stream_next(&stream));) {
    char *text = spear_json_is(spear_json_at(event, "type"), "text", 4) ? spear_json_text_alloc(event, "text") : NULL;
    if (text) fputs(text, stdout);
    fflush(stdout);
    free(text);
  }
  putchar('\n');

  int failed;
  char *answer = spear_answer(stream.response, &failed);
  if (failed) fprintf(stderr, "the model did not answer: %s\n", answer);
  return failed;
}
