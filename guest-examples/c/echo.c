/* Sends every frame of stream 1 back, with its data in capitals, until the client has nothing more to say. */
#include "spear.h"

#define STREAM 1

int main(void) {
  static char buffer[SPEAR_FRAME_MAX], answer[SPEAR_FRAME_MAX];
  int32_t fd = user_stream_open(STREAM, SPEAR_STREAM_BOTH);
  if (fd < 0) {
    fprintf(stderr, "no client side (%d): run it with --stream\n", (int)fd);
    return 1;
  }
  spear_frame frame;
  int32_t rc, count = 0;
  while ((rc = spear_stream_receive(fd, buffer, &frame)) == 1) {
    for (uint32_t i = 0; i < frame.data_length; i++) {
      char byte = frame.data[i];
      answer[i] = byte >= 'a' && byte <= 'z' ? (char)(byte - 'a' + 'A') : byte;
    }
    frame.data = answer;
    if ((rc = spear_stream_send(fd, STREAM, &frame)) < 0) break;
    count++;
  }
  user_stream_close(fd);
  printf("%d frames\n", (int)count);
  return rc < 0 && rc != -SPEAR_EPIPE;
}
