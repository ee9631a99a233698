/* Writes a line and never ends: only the deadline or Ctrl-C gets rid of it. */
#include <unistd.h>

int main(void) {
  static const char line[] = "before the loop\n";
  write(1, line, sizeof line - 1);
  for (volatile unsigned turns = 0;; turns++) {
  }
}
