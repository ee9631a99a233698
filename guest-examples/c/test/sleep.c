/* sleep.wasm [MS]: waits with usleep (WASI poll_oneoff) and with sleep_ms. Exit 1 if either came back too early. */
#include "../spear.h"
#include <unistd.h>

/* The wall clock may be read a little before the timer's own clock. */
#define TOLERANCE_MS 5

static int report(const char *name, int64_t started, int wanted) {
  int early = time_now_ms() - started < wanted - TOLERANCE_MS;
  printf("%s %s\n", name, early ? "came back too early" : "ok");
  return early;
}

int main(int argc, char **argv) {
  int ms = argc > 1 ? atoi(argv[1]) : 40;
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("before the sleep\n");

  int64_t started = time_now_ms();
  usleep((useconds_t)ms * 1000);
  int early = report("usleep", started, ms);

  started = time_now_ms();
  sleep_ms(ms);
  return early | report("sleep_ms", started, ms);
}
