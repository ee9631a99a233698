/* exit.wasm CODE [return]: ends with proc_exit, or by returning from main. */
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  int code = argc > 1 ? atoi(argv[1]) : 0;
  if (argc > 2 && strcmp(argv[2], "return") == 0) return code;
  _Exit(code);
}
