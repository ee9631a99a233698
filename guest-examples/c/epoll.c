/* Two questions asked at the same time, answers printed in the order in which they arrive. */
#include "spear.h"

#define COUNT 2

int main(void) {
  const char *questions[COUNT] = {"Tell me a long story about the sea.", "Name one colour."};
  int32_t responses[COUNT];
  int32_t epfd = spear_epoll_create();
  setvbuf(stdout, NULL, _IOLBF, 0);

  for (int i = 0; i < COUNT; i++) {
    int32_t session = cchat_create();
    spear_nonblocking(session);
    spear_chat_say(session, "user", questions[i]);
    responses[i] = cchat_send(session, 0);
    spear_epoll_ctl(epfd, SPEAR_EPOLL_CTL_ADD, responses[i], SPEAR_EPOLLIN);
    printf("asked %d: %s\n", i, questions[i]);
  }

  int failures = 0;
  for (int open = COUNT; open > 0;) {
    spear_event ready[COUNT];
    int32_t count = spear_wait(epfd, ready, COUNT, -1);
    if (count < 0) {
      fprintf(stderr, "spear_epoll_wait: %d\n", count);
      return 1;
    }
    for (int r = 0; r < count; r++) {
      for (int i = 0; i < COUNT; i++) {
        if (responses[i] != ready[r].fd) continue;
        int failed;
        char *answer = spear_answer(responses[i], &failed);
        printf("answer %d: %s\n", i, answer);
        free(answer);
        failures += failed;
        cchat_close(responses[i]);
        open--;
      }
    }
  }
  spear_epoll_close(epfd);
  return failures;
}
