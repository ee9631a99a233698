/* What an MCP server has besides tools, without a model: reads a resource, gets a prompt, and prints both. The same program
   exists in every language; this one takes arguments: server id, uri, prompt, its JSON arguments. */
#include "spear.h"

/* A call that a server answers once, however long the answer is: after ENOSPC the same call fetches what waits. */
typedef int32_t (*ask_fn)(int32_t fd, const char *name, const char *args, char *out, uint32_t *out_len);

static int32_t read_resource(int32_t fd, const char *uri, const char *args, char *out, uint32_t *out_len) {
  (void)args;
  return mcp_read_resource(fd, uri, (uint32_t)strlen(uri), out, out_len);
}

static int32_t get_prompt(int32_t fd, const char *name, const char *args, char *out, uint32_t *out_len) {
  return mcp_get_prompt(fd, name, (uint32_t)strlen(name), args, (uint32_t)strlen(args), out, out_len);
}

static char *ask(ask_fn call, int32_t fd, const char *name, const char *args) {
  uint32_t capacity = 256;
  char *out = NULL;
  for (;;) {
    out = (char *)realloc(out, capacity + 1);
    uint32_t length = capacity;
    int32_t rc = call(fd, name, args, out, &length);
    if (rc >= 0) {
      out[rc] = 0;
      return out;
    }
    if (rc != -SPEAR_ENOSPC) exit(-rc);
    capacity = length;
  }
}

static int count(const char *list, const char *field) {
  int n = 0;
  while (spear_json_item(spear_json_at(list, field), (uint32_t)n)) n++;
  return n;
}

/* The first line of the text at path, or the error: 1 if it is one. */
static int show(const char *title, const char *answer, const char *path) {
  char *text = spear_json_text_alloc(answer, path);
  int failed = text == NULL;
  if (failed) text = spear_json_text_alloc(answer, "error.message");
  printf("%s: %.*s\n", title, text ? (int)strcspn(text, "\n") : 0, text ? text : "");
  free(text);
  return failed;
}

int main(int argc, char **argv) {
  const char *id = argc > 1 ? argv[1] : "everything";
  const char *uri = argc > 2 ? argv[2] : "demo://resource/static/document/features.md";
  const char *prompt = argc > 3 ? argv[3] : "args-prompt";
  const char *args = argc > 4 ? argv[4] : "{\"city\":\"Bern\"}";
  int32_t server = mcp_open(id, (uint32_t)strlen(id));
  if (server < 0) {
    fprintf(stderr, "cannot open %s: errno %d\n", id, -server);
    return 1;
  }
  int32_t length;
  char *resources = spear_read_alloc(mcp_list_resources, server, &length);
  char *prompts = spear_read_alloc(mcp_list_prompts, server, &length);
  if (!resources || !prompts) {
    fprintf(stderr, "cannot list what %s has: errno %d\n", id, -length);
    return 1;
  }
  printf("%s has %d resources, %d templates and %d prompts for this guest\n", id, count(resources, "resources"),
         count(resources, "templates"), count(prompts, "prompts"));
  int failed = show(uri, ask(read_resource, server, uri, ""), "contents[0].text");
  failed += show(prompt, ask(get_prompt, server, prompt, args), "messages[0].content.text");
  mcp_close(server);
  return failed ? 3 : 0;
}
