/* Traps inside functions whose names the wasm stack must show. */
#include <unistd.h>

__attribute__((noinline)) static void reach_the_unreachable(void) { __builtin_trap(); }

__attribute__((noinline)) static void walk_to_the_trap(void) {
  reach_the_unreachable();
  __asm__ volatile("");
}

int main(void) {
  static const char line[] = "before the trap\n";
  write(1, line, sizeof line - 1);
  walk_to_the_trap();
  return 0;
}
