/*
 * poll-spin.wasm recv|epoll|both|tool: a non-blocking send that is polled without ever suspending. It ends only on a host that
 * takes in what has arrived inside these calls. tool: with a guest tool, whose callback runs inside a wait of 0 ms.
 */
#include "../spear.h"

static int32_t probe(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  (void)args;
  (void)args_len;
  puts("tool called");
  spear_writer w = spear_write_to(out, *out_len);
  spear_put(&w, "{\"ok\":true}");
  return spear_finish(&w, out_len);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "both";
  int tool = strcmp(mode, "tool") == 0;
  int look = tool || strcmp(mode, "recv") != 0;
  int receive = strcmp(mode, "epoll") != 0;

  int32_t session = cchat_create();
  spear_nonblocking(session);
  if (tool) {
    SPEAR_TOOL_ARENA(session, 4096);
    spear_tool(session, probe, "{\"name\":\"probe\"}");
  }
  spear_chat_say(session, "user", "Take your time.");
  int32_t response = cchat_send(session, tool ? SPEAR_SEND_AUTO_TOOL_CALL : 0);
  int32_t epfd = spear_epoll_create();
  spear_epoll_ctl(epfd, SPEAR_EPOLL_CTL_ADD, response, SPEAR_EPOLLIN);

  for (unsigned long polls = 1;; polls++) {
    int32_t ready = 0, received = -SPEAR_EAGAIN;
    uint32_t none = 0;
    spear_event event;
    if (look) ready = spear_wait(epfd, &event, 1, 0);
    if (receive) received = cchat_recv(response, NULL, &none);
    if (ready == 0 && received == -SPEAR_EAGAIN) continue;

    int failed;
    char *answer = spear_answer(response, &failed);
    printf("%s\n", polls > 1 ? "polled more than once" : "ready at the first look");
    if (ready > 0) printf("event: %s, %d\n", event.fd == response ? "the response" : "something else", event.events);
    printf("answer: %s\n", answer);
    return failed;
  }
}
