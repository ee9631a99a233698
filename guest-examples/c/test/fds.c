/* fds.wasm sessions|epolls: opens until EMFILE, then checks that closing one makes room and that its number stays dead. */
#include "../spear.h"

int main(int argc, char **argv) {
  int epolls = argc > 1 && strcmp(argv[1], "epolls") == 0;
  int32_t last = -1;
  for (int count = 0;; count++) {
    int32_t fd = epolls ? spear_epoll_create() : cchat_create();
    if (fd >= 0) {
      last = fd;
      continue;
    }
    printf("opened %d\n", count);
    printf("then %d\n", fd);
    if (last < 0) return 1;

    printf("close %d\n", cchat_close(last));
    int32_t again = epolls ? spear_epoll_create() : cchat_create();
    printf("a new number: %s\n", again > last ? "yes" : "no");
    int32_t stale = epolls ? spear_epoll_ctl(last, SPEAR_EPOLL_CTL_ADD, again, SPEAR_EPOLLIN) : cchat_write_msg(last, "user", 4, "x", 1);
    printf("stale %d\n", stale);
    printf("close twice %d\n", cchat_close(last));
    return fd == -SPEAR_EMFILE && again > last && stale == -SPEAR_EBADF ? 0 : 1;
  }
}
