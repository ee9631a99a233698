/* loud.wasm COUNT [LEVEL]: logs as fast as it can, then says so on stdout. */
#include "../spear.h"

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 1000;
  int level = argc > 2 ? atoi(argv[2]) : SPEAR_LOG_INFO;
  int refused = 0;
  char line[64];
  for (int i = 0; i < count; i++) {
    int length = snprintf(line, sizeof line, "line %d of a guest that logs in a loop", i);
    if (spear_log(level, line, (uint32_t)length) != 0) refused++;
  }
  printf("logged %d, refused %d\n", count, refused);
  return refused != 0;
}
