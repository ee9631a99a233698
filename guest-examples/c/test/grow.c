/*
 * grow.wasm MODE: memory grows while the host holds pointers into it, or just before it gets new ones.
 *   callback  inside a tool callback, which then writes its answer
 *   arena     the same with the arena itself in memory that was grown a moment ago
 *   nested    inside a callback, before and after it suspends in sleep_ms and in a send of its own
 *   epoll     inside a callback that runs on top of a suspended spear_epoll_wait
 *   recv      between send and recv, which then writes to the new pages
 *   log       before a log whose text lies in the last bytes of the new pages
 */
#include "../spear.h"

#define PAGE 65536u
#define ARENA 4096u
#define CANARY 0x5ca1ab1eu

static const char *mode;
static int grown;

static int is(const char *name) { return strcmp(mode, name) == 0; }

/* The first byte of the new pages. */
static char *grow(size_t pages) {
  size_t before = __builtin_wasm_memory_grow(0, pages);
  if (before == SIZE_MAX) {
    puts("memory.grow failed");
    exit(2);
  }
  grown++;
  return (char *)(before * PAGE);
}

static void log_from_the_end(void) {
  static const char text[] = "from the last bytes of memory";
  char *place = grow(1) + PAGE - (sizeof text - 1);
  memcpy(place, text, sizeof text - 1);
  printf("log %d\n", spear_log(SPEAR_LOG_INFO, place, sizeof text - 1));
  printf("one byte further %d\n", spear_log(SPEAR_LOG_INFO, place + 1, sizeof text - 1));
}

/* Receives into pages that did not exist when the response arrived. */
static void receive_into_new_pages(int32_t response, const char *label) {
  char *place = grow(2);
  uint32_t *length = (uint32_t *)(place + PAGE);
  *length = PAGE - 1;
  int32_t rc = cchat_recv(response, place, length);
  char answer[128];
  place[rc > 0 ? rc : 0] = 0;
  spear_json_text(place, "choices[0].message.content", answer, sizeof answer);
  printf("%s: %s, length agrees: %s\n", label, answer, rc >= 0 && (uint32_t)rc == *length ? "yes" : "no");
}

static int32_t grow_tool(const char *args, uint32_t args_len, char *out, uint32_t *out_len) {
  char before[256];
  memcpy(before, args, args_len);
  grow(16);
  if (is("nested")) {
    sleep_ms(5);
    grow(1);
    log_from_the_end();
    int32_t session = cchat_create();
    spear_chat_say(session, "user", "A question from inside.");
    receive_into_new_pages(cchat_send(session, 0), "inside");
  }
  printf("arguments kept: %s\n", memcmp(before, args, args_len) == 0 ? "yes" : "no");
  spear_writer w = spear_write_to(out, *out_len);
  spear_put(&w, "{\"ok\":true}");
  return spear_finish(&w, out_len);
}

static int32_t wait_for(int32_t response) {
  spear_event events[4];
  int32_t epfd = spear_epoll_create();
  spear_epoll_ctl(epfd, SPEAR_EPOLL_CTL_ADD, response, SPEAR_EPOLLIN);
  uint32_t bytes = sizeof events;
  int32_t count = spear_epoll_wait(epfd, events, &bytes, -1);
  printf("events %d, bytes %u, %s\n", count, bytes, events[0].fd == response ? "the response" : "something else");
  return response;
}

int main(int argc, char **argv) {
  mode = argc > 1 ? argv[1] : "callback";
  setvbuf(stdout, NULL, _IOLBF, 0);
  volatile uint32_t canaries[64];
  for (int i = 0; i < 64; i++) canaries[i] = CANARY + (uint32_t)i;

  if (is("log")) {
    log_from_the_end();
    return 0;
  }
  int32_t session = cchat_create();
  spear_chat_say(session, "user", is("recv") ? "A question from inside." : "Use the tool.");
  int flags = 0;
  if (!is("recv")) {
    flags = SPEAR_SEND_AUTO_TOOL_CALL;
    spear_set_arena(session, is("arena") ? grow(1) + PAGE - ARENA : aligned_alloc(8, ARENA), ARENA);
    spear_tool(session, grow_tool, "{\"name\":\"probe\"}");
  }
  if (is("epoll")) spear_nonblocking(session);
  int32_t response = cchat_send(session, flags);
  if (is("epoll")) wait_for(response);
  receive_into_new_pages(response, "answer");

  int intact = 1;
  for (int i = 0; i < 64; i++) intact &= canaries[i] == CANARY + (uint32_t)i;
  printf("stack intact: %s, grown %s\n", intact ? "yes" : "no", grown > 0 ? "yes" : "no");
  return !intact;
}
