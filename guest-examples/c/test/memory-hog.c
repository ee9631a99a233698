/* Allocates MiB by MiB until malloc fails, and ends well. */
#include <stdio.h>
#include <stdlib.h>

#define MIB (1024 * 1024)

int main(void) {
  int got = 0;
  for (volatile char *block; (block = malloc(MIB)); got++) block[MIB - 1] = 1;
  printf("got %d MiB\n", got);
  return 0;
}
