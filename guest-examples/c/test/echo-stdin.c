/* Copies stdin to stdout until the end. */
#include <unistd.h>

int main(void) {
  static char buffer[4096];
  for (;;) {
    ssize_t got = read(0, buffer, sizeof buffer);
    if (got == 0) return 0;
    if (got < 0) return 1;
    for (ssize_t sent = 0; sent < got;) {
      ssize_t n = write(1, buffer + sent, (size_t)(got - sent));
      if (n <= 0) return 2;
      sent += n;
    }
  }
}
