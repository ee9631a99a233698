/* Everything an agent does, in one small program: a chat with a tool of its own and tools of an MCP server, a direct
   call, two calls side by side, and a call that policy refuses. The same program exists in every language. */
#include "spear.h"

static void say(const char *title, const char *text) {
  char line[512];
  snprintf(line, sizeof line, "%s: %s", title, text);
  spear_log_info(line);
}

static int fail(const char *what, int32_t rc) {
  char line[128];
  snprintf(line, sizeof line, "%s failed with errno %d", what, (int)-rc);
  spear_log_error(line);
  return 1;
}

static int32_t add(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  (void)args_len;
  spear_writer w = spear_write_to(out, *out_len);
  spear_putf(&w, "%lld", (long long)(spear_json_int(args, "a", 0) + spear_json_int(args, "b", 0)));
  return spear_finish(&w, out_len);
}

static int chat(void) {
  int32_t session = cchat_create();
  SPEAR_TOOL_ARENA(session, 65536);
  spear_tool(session, add,
             "{\"name\":\"add\",\"description\":\"Adds two whole numbers.\",\"parameters\":{\"type\":\"object\","
             "\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"integer\"}},\"required\":[\"a\",\"b\"]}}");
  spear_chat_say(session, "user", "How many notes are there, and what is 20 + 22?");
  int32_t response = cchat_send(session, SPEAR_SEND_AUTO_TOOL_CALL);
  if (response < 0) return fail("cchat_send", response);
  int failed;
  char *answer = spear_answer(response, &failed);
  if (failed) spear_log_error(answer);
  else say("answer", answer);
  free(answer);
  cchat_close(response);
  cchat_close(session);
  return failed;
}

static const char *path_of(const char *note) {
  static char json[128];
  snprintf(json, sizeof json, "{\"path\":\"%s\"}", note);
  return json;
}

/* The result of a tool, whole; free() it. */
static char *call_tool(int32_t server, const char *tool, const char *args) {
  uint32_t capacity = 4096;
  for (char *result = NULL;; free(result)) {
    uint32_t size = capacity;
    result = malloc(capacity + 1);
    int32_t rc = mcp_call_tool(server, tool, (uint32_t)strlen(tool), args, (uint32_t)strlen(args), result, &size);
    if (rc >= 0) {
      result[rc] = 0;
      return result;
    }
    if (rc != -SPEAR_ENOSPC) {
      fail("mcp_call_tool", rc);
      free(result);
      return NULL;
    }
    capacity = size; /* the result waits for the same call with a larger buffer */
  }
}

static int direct(int32_t server) {
  char *result = call_tool(server, "read_text_file", path_of("risks.md"));
  char *text = result ? spear_json_text_alloc(result, "content[0].text") : NULL;
  free(result);
  if (!text) return 1;
  text[strcspn(text, "\n")] = 0;
  say("direct", text);
  free(text);
  return 0;
}

static int parallel(int32_t server) {
  const char *notes[] = {"roadmap.md", "minutes-2026-10-05.md"};
  int32_t calls[2];
  size_t bytes[2];
  for (int i = 0; i < 2; i++) {
    const char *args = path_of(notes[i]);
    calls[i] = mcp_submit(server, "read_text_file", 14, args, (uint32_t)strlen(args));
    if (calls[i] < 0) return fail("mcp_submit", calls[i]);
  }
  for (int i = 0; i < 2; i++) {
    int32_t length;
    char *result = spear_read_alloc(mcp_result, calls[i], &length);
    char *text = result ? spear_json_text_alloc(result, "content[0].text") : NULL;
    if (!text) return fail("mcp_result", length);
    bytes[i] = strlen(text);
    free(text);
    free(result);
    mcp_close(calls[i]);
  }
  char sizes[48];
  snprintf(sizes, sizeof sizes, "%zu %zu", bytes[0], bytes[1]);
  say("parallel", sizes);
  return 0;
}

static int refused(int32_t server) {
  char *result = call_tool(server, "write_file", "{\"path\":\"new.md\",\"content\":\"mine\"}");
  char *code = result ? spear_json_text_alloc(result, "error.code") : NULL;
  free(result);
  if (!code) return 1;
  say("refused", code);
  free(code);
  return 0;
}

int main(void) {
  if (chat()) return 1;
  int32_t server = mcp_open("files", 5);
  if (server < 0) return fail("mcp_open", server);
  int failed = direct(server) || parallel(server) || refused(server);
  mcp_close(server);
  return failed;
}
