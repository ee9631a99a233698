/*
 * clerk.wasm [MS]: serves one client of stream 1 after the other, and numbers all that they say; "bye" ends it. It says
 * who came and went. With MS it polls at that interval, also without input.
 */
#include "../spear.h"

#define STREAM 1

int main(int argc, char **argv) {
  static char buffer[SPEAR_FRAME_MAX];
  char answer[256];
  int timeout = argc > 1 ? atoi(argv[1]) : -1;
  int32_t ctl = user_stream_ctl_open();
  for (int said = 0;;) {
    int32_t fd = user_stream_open(STREAM, SPEAR_STREAM_BOTH);
    int32_t epfd = spear_epoll_create();
    spear_epoll_ctl(epfd, SPEAR_EPOLL_CTL_ADD, ctl, SPEAR_EPOLLIN);
    spear_epoll_ctl(epfd, SPEAR_EPOLL_CTL_ADD, fd, SPEAR_EPOLLIN);
    for (int serves = 1; serves;) {
      spear_event event;
      if (spear_wait(epfd, &event, 1, timeout) == 0) printf("nobody\n");
      spear_stream_event change;
      uint32_t length = sizeof change;
      while (user_stream_ctl_read(ctl, &change, &length) > 0) {
        printf("%s %u\n", change.kind == SPEAR_STREAM_CONNECTED ? "came" : "went", (unsigned)change.stream_id);
      }
      fflush(stdout);
      length = sizeof buffer;
      int32_t rc = user_stream_read(fd, buffer, &length);
      if (rc == -SPEAR_EPIPE) serves = 0;
      if (rc <= 0) continue;
      const char *data = buffer + SPEAR_FRAME_HEADER;
      int size = (int)length - SPEAR_FRAME_HEADER;
      int count = snprintf(answer, sizeof answer, "%d %.*s", ++said, size, data);
      spear_frame frame = {.type = 1, .data = answer, .data_length = (uint32_t)count};
      spear_stream_send(fd, STREAM, &frame);
      if (size == 3 && memcmp(data, "bye", 3) == 0) return 0;
    }
    spear_epoll_close(epfd);
    user_stream_close(fd);
  }
}
