/*
 * mcp-call.wasm SERVER TOOL JSON: one blocking call whose first buffer is too small, so that the result has to be
 * fetched by the same call.
 */
#include "../spear.h"

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  const char *tool = argv[2], *json = argv[3];
  int32_t server = mcp_open(argv[1], (uint32_t)strlen(argv[1]));
  if (server < 0) {
    printf("open: %d\n", -server);
    return 1;
  }
  printf("calling\n");
  fflush(stdout);
  char none[1];
  uint32_t length = 0;
  int32_t first = mcp_call_tool(server, tool, (uint32_t)strlen(tool), json, (uint32_t)strlen(json), none, &length);
  printf("first: %d, needs %u\n", first, length);
  char *result = calloc(length + 1, 1);
  int32_t second = mcp_call_tool(server, tool, (uint32_t)strlen(tool), json, (uint32_t)strlen(json), result, &length);
  printf("second: %d %s\n", second, result);
  return 0;
}
