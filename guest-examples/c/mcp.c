/* Uses MCP tools without a model: opens a server, lists its tools, then runs many calls at once and takes each result
   as it comes. Arguments: server id, tool, JSON arguments, how many calls. */
#include "spear.h"

#define MAX_CALLS 256

static char *list_tools(int32_t server) {
  int32_t length;
  return spear_read_alloc(mcp_list_tools, server, &length);
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: mcp SERVER TOOL JSON-ARGUMENTS [CALLS]\n");
    return 2;
  }
  int calls = argc > 4 ? atoi(argv[4]) : 1;
  if (calls < 1 || calls > MAX_CALLS) calls = MAX_CALLS;

  int32_t server = mcp_open(argv[1], (uint32_t)strlen(argv[1]));
  if (server < 0) {
    fprintf(stderr, "cannot open %s: errno %d\n", argv[1], -server);
    return 1;
  }
  char *tools = list_tools(server);
  int count = 0;
  while (tools && spear_json_item(spear_json_at(tools, "tools"), (uint32_t)count)) count++;
  printf("%s offers %d tools\n", argv[1], count);

  int32_t epoll = spear_epoll_create();
  spear_nonblocking(server); /* its calls inherit it: a result that is not there yet is EAGAIN */
  for (int i = 0; i < calls; i++) {
    int32_t call = mcp_submit(server, argv[2], (uint32_t)strlen(argv[2]), argv[3], (uint32_t)strlen(argv[3]));
    if (call < 0) {
      fprintf(stderr, "call %d was not taken: errno %d\n", i, -call);
      return 1;
    }
    spear_epoll_ctl(epoll, SPEAR_EPOLL_CTL_ADD, call, SPEAR_EPOLLIN);
  }

  int done = 0, failed = 0;
  while (done < calls) {
    spear_event ready[16];
    int32_t n = spear_wait(epoll, ready, 16, 60000);
    if (n <= 0) return 1;
    for (int i = 0; i < n; i++) {
      int32_t length;
      char *result = spear_read_alloc(mcp_result, ready[i].fd, &length);
      int error = result == NULL || spear_json_at(result, "error") != NULL;
      if (calls == 1 && result) puts(result);
      failed += error;
      done++;
      free(result);
      mcp_close(ready[i].fd);
    }
  }
  printf("%d calls, %d failed\n", done, failed);
  return failed ? 3 : 0;
}
