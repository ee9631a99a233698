/* A tool of the guest: the model calls `sum`, the host calls back into this module, the model uses the result. */
#include "spear.h"

static int32_t sum(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  long long total = spear_json_int(args, "a", 0) + spear_json_int(args, "b", 0);
  spear_writer w = spear_write_to(out, *out_len);
  spear_putf(&w, "{\"sum\":%lld}", total);
  printf("tool sum %.*s -> {\"sum\":%lld}\n", (int)args_len, args, total);
  return spear_finish(&w, out_len);
}

int main(void) {
  int32_t session = cchat_create();
  SPEAR_TOOL_ARENA(session, 65536);
  spear_tool(session, sum,
             "{\"name\":\"sum\",\"description\":\"Adds two whole numbers.\",\"parameters\":{\"type\":\"object\","
             "\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}},\"required\":[\"a\",\"b\"]}}");
  spear_chat_say(session, "user", "What is 2 + 40? Use the tool.");

  int failed;
  puts(spear_answer(cchat_send(session, SPEAR_SEND_AUTO_TOOL_CALL), &failed));
  return failed;
}
