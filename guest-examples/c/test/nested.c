/*
 * nested.wasm MODE: hostcalls inside a tool callback.
 *   other   sends on another session        busy   sends on the session that is waiting: EBUSY
 *   deep    sends until the host says stop  sleep  suspends in sleep_ms and usleep
 *   epoll   waits for a non-blocking send   exit   ends the guest with 7
 */
#include "../spear.h"
#include <unistd.h>

#define ARENA 4096
#define TOOL "{\"name\":\"ask\",\"parameters\":{\"type\":\"object\"}}"

static const char *mode;
static int32_t outer;
static int depth, deepest;

static int32_t ask(const char *args, uint32_t args_len, char *out, uint32_t *out_len);

static int32_t session_with_tool(void) {
  int32_t session = cchat_create();
  spear_set_arena(session, aligned_alloc(8, ARENA), ARENA);
  spear_tool(session, ask, TOOL);
  spear_chat_say(session, "user", "Use the tool.");
  return session;
}

static char *ask_another(int nonblocking) {
  int32_t session = cchat_create();
  if (nonblocking) spear_nonblocking(session);
  spear_chat_say(session, "user", "A question from inside.");
  int32_t response = cchat_send(session, 0);
  if (nonblocking) {
    spear_event event;
    int32_t epfd = spear_epoll_create();
    spear_epoll_ctl(epfd, SPEAR_EPOLL_CTL_ADD, response, SPEAR_EPOLLIN);
    int32_t count = spear_wait(epfd, &event, 1, -1);
    printf("inside: %d event, %s\n", count, event.fd == response ? "the response" : "something else");
    spear_epoll_close(epfd);
  }
  int failed;
  return spear_answer(response, &failed);
}

static int32_t ask(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  (void)args;
  (void)args_len;
  depth++;
  if (depth > deepest) deepest = depth;
  if (strcmp(mode, "other") == 0) printf("inside: %s\n", ask_another(0));
  if (strcmp(mode, "epoll") == 0) printf("inside: %s\n", ask_another(1));
  if (strcmp(mode, "busy") == 0) {
    printf("write_msg on the busy session: %d\n", spear_chat_say(outer, "user", "for later"));
    printf("send on the busy session: %d\n", cchat_send(outer, 0));
  }
  if (strcmp(mode, "deep") == 0) {
    int32_t response = cchat_send(session_with_tool(), SPEAR_SEND_AUTO_TOOL_CALL);
    if (response < 0) printf("depth %d: %d\n", depth, response);
  }
  if (strcmp(mode, "sleep") == 0) {
    sleep_ms(10);
    usleep(10000);
    puts("inside: slept twice");
  }
  if (strcmp(mode, "exit") == 0) {
    puts("inside: exit");
    exit(7);
  }
  depth--;
  spear_writer w = spear_write_to(out, *out_len);
  spear_put(&w, "{\"ok\":true}");
  return spear_finish(&w, out_len);
}

int main(int argc, char **argv) {
  mode = argc > 1 ? argv[1] : "other";
  setvbuf(stdout, NULL, _IOLBF, 0);
  outer = session_with_tool();
  int failed;
  char *answer = spear_answer(cchat_send(outer, SPEAR_SEND_AUTO_TOOL_CALL), &failed);
  printf("deepest %d\n", deepest);
  printf("answer: %s\n", answer);
  return failed;
}
