/*
 * Tools without callbacks: the send ends when the model wants tools, the guest reads the calls out of the body, answers
 * them in its own time and sends again. This is the way for languages without function pointers, and for guests
 * that want to decide about a call (ask a user, run several together) outside of a callback.
 */
#include "spear.h"

#define MAX_ROUNDS 8

static const struct {
  const char *part;
  int stock, price_cents;
} shelf[] = {{"bearing", 14, 1250}, {"gasket", 0, 380}, {"rotor", 3, 24900}};

static void look_up(const char *name, const char *part, char *out, size_t capacity) {
  for (size_t i = 0; i < sizeof shelf / sizeof *shelf; i++) {
    if (strcmp(shelf[i].part, part) != 0) continue;
    if (strcmp(name, "stock") == 0) snprintf(out, capacity, "{\"stock\":%d}", shelf[i].stock);
    else snprintf(out, capacity, "{\"price_cents\":%d}", shelf[i].price_cents);
    return;
  }
  snprintf(out, capacity, "{\"error\":\"no such part\"}");
}

static void answer_call(int32_t session, const char *call) {
  char id[128], name[64], part[64], result[128];
  spear_json_text(call, "id", id, sizeof id);
  spear_json_text(call, "name", name, sizeof name);

  /* As with every provider the arguments are a JSON text inside a JSON string. */
  char *arguments = spear_json_text_alloc(call, "arguments");
  spear_json_text(arguments, "part", part, sizeof part);
  look_up(name, part, result, sizeof result);
  printf("%s %s -> %s\n", name, arguments ? arguments : "", result);
  cchat_write_tool_result(session, id, (uint32_t)strlen(id), result, (uint32_t)strlen(result));
  free(arguments);
}

int main(void) {
  int32_t session = cchat_create();
  const char *parameters = "\"parameters\":{\"type\":\"object\",\"properties\":{\"part\":{\"type\":\"string\"}},\"required\":[\"part\"]}";
  const char *tools[] = {"stock", "price"};
  for (int i = 0; i < 2; i++) {
    char json[256];
    int length = snprintf(json, sizeof json, "{\"name\":\"%s\",\"description\":\"The %s of a spare part.\",%s}", tools[i],
                          tools[i], parameters);
    cchat_write_fn(session, SPEAR_TOOL_HANDED_BACK, json, (uint32_t)length);
  }
  spear_chat_say(session, "user", "Can I have four rotors and a gasket, and what would that cost?");

  for (int round = 1; round <= MAX_ROUNDS; round++) {
    int32_t response = cchat_send(session, SPEAR_SEND_HAND_BACK);
    int32_t length;
    char *body = spear_recv_alloc(response, &length);
    const char *pending = spear_json_at(body, "_spear.pending_tool_calls");
    if (!spear_json_item(pending, 0)) {
      int failed;
      puts(spear_answer(response, &failed));
      return failed;
    }
    printf("round %d\n", round);
    const char *call;
    for (uint32_t i = 0; (call = spear_json_item(pending, i)); i++) answer_call(session, call);
    free(body);
    cchat_close(response);
  }
  fprintf(stderr, "no answer after %d rounds\n", MAX_ROUNDS);
  return 1;
}
