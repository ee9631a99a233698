/* Asks about files. The guest knows no tool: the host puts those of its MCP servers into the chat and runs the calls. */
#include "spear.h"

int main(int argc, char **argv) {
  const char *question = argc > 1 ? argv[1] : "What do the notes say?";
  int32_t session = cchat_create();
  spear_set_param_text(session, "mcp.tool_naming", "readable");
  spear_chat_say(session, "system", "Answer from the files you can read. Say which file a fact comes from.");
  spear_chat_say(session, "user", question);
  printf("question: %s\n\n", question);

  int32_t response = cchat_send(session, SPEAR_SEND_AUTO_TOOL_CALL);
  int failed;
  char *answer = spear_answer(response, &failed);
  if (failed) {
    fprintf(stderr, "the model did not answer: %s\n", answer);
    return 1;
  }
  puts(answer);
  return 0;
}
