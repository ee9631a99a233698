/*
 * callback.wasm MODE: every way in which a tool can end.
 *   ok      answers         rc      returns -5         trap   traps
 *   utf8    invalid UTF-8   length  claims more bytes than it was given room for
 *   enospc  asks for more room once, then answers      huge   asks for more room than there is
 *   index   is registered with a table index that does not exist, signature with one of another type
 *   spin    never returns
 */
#include "../spear.h"

static const char *mode;
static int calls;

static int is(const char *name) { return strcmp(mode, name) == 0; }

static int32_t probe(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  uint32_t capacity = *out_len;
  calls++;
  printf("call %d: %.*s, NUL after it: %s, room for an answer: %s\n", calls, (int)args_len, args, args[args_len] ? "no" : "yes",
         capacity >= 64 ? "yes" : "no");
  if (is("rc")) return -SPEAR_EIO;
  if (is("trap")) __builtin_trap();
  if (is("spin")) {
    for (volatile unsigned turns = 0;; turns++) {
    }
  }
  if (is("length")) {
    *out_len = capacity + 1;
    return 0;
  }
  if ((is("enospc") && calls == 1) || is("huge")) {
    *out_len = is("huge") ? UINT32_MAX : 32;
    return -SPEAR_ENOSPC;
  }
  spear_writer w = spear_write_to(out, capacity);
  spear_put(&w, is("utf8") ? "{\"bad\":\"\xff\xc3\"}" : "{\"ok\":true}");
  return spear_finish(&w, out_len);
}

static void wrong_type(void) { puts("the function of another type ran"); }

int main(int argc, char **argv) {
  mode = argc > 1 ? argv[1] : "ok";
  setvbuf(stdout, NULL, _IOLBF, 0);
  int32_t session = cchat_create();
  SPEAR_TOOL_ARENA(session, 4096);
  int32_t index = (int32_t)(intptr_t)probe;
  if (is("index")) index = 1 << 20;
  if (is("signature")) index = (int32_t)(intptr_t)wrong_type;
  printf("write_fn %d\n", cchat_write_fn(session, index, "{\"name\":\"probe\"}", 16));
  spear_chat_say(session, "user", "Use the tool.");

  int failed;
  char *answer = spear_answer(cchat_send(session, SPEAR_SEND_AUTO_TOOL_CALL), &failed);
  printf("calls %d\n", calls);
  printf("answer: %s\n", answer);
  return failed;
}
