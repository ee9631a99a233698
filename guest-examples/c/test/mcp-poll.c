/*
 * mcp-poll.wasm SERVER TOOL JSON result|epoll: a submitted call that is polled without ever suspending. It ends only on a
 * host that takes in what has arrived inside these calls.
 */
#include "../spear.h"

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  int look = strcmp(argv[4], "epoll") == 0;
  int32_t server = mcp_open(argv[1], (uint32_t)strlen(argv[1]));
  if (server < 0) return 1;
  spear_nonblocking(server);
  int32_t call = mcp_submit(server, argv[2], (uint32_t)strlen(argv[2]), argv[3], (uint32_t)strlen(argv[3]));
  int32_t epfd = spear_epoll_create();
  spear_epoll_ctl(epfd, SPEAR_EPOLL_CTL_ADD, call, SPEAR_EPOLLIN);
  printf("polling\n");
  fflush(stdout);
  for (;;) {
    spear_event event;
    uint32_t none = 0;
    if (look ? spear_wait(epfd, &event, 1, 0) == 0 : mcp_result(call, NULL, &none) == -SPEAR_EAGAIN) continue;
    int32_t length;
    char *result = spear_read_alloc(mcp_result, call, &length);
    puts(result);
    return 0;
  }
}
