/* The JSON functions of spear.h as exports, so that a test can hold them against JSON.parse. */
#include "../spear.h"

#define EXPORT(name) __attribute__((export_name(#name)))

EXPORT(alloc) void *test_alloc(uint32_t bytes) { return malloc(bytes); }
EXPORT(release) void test_release(void *memory) { free(memory); }
EXPORT(text) int32_t test_text(const char *json, const char *path, char *out, uint32_t capacity) {
  return spear_json_text(json, path, out, capacity);
}
EXPORT(raw) int32_t test_raw(const char *json, const char *path, char *out, uint32_t capacity) {
  const char *value = spear_json_at(json, path);
  const char *end = value ? spear_json_end(value) : NULL;
  if (!end) return -SPEAR_ENOENT;
  spear_writer w = spear_write_to(out, capacity);
  spear_put_bytes(&w, value, (uint32_t)(end - value));
  uint32_t length;
  int32_t rc = spear_finish(&w, &length);
  return rc < 0 ? rc : (int32_t)length;
}
EXPORT(integer) int64_t test_integer(const char *json, const char *path) { return spear_json_int(json, path, -1); }
EXPORT(number) double test_number(const char *json, const char *path) { return spear_json_number(json, path, -1); }
EXPORT(quote) int32_t test_quote(const char *text, char *out, uint32_t capacity) {
  spear_writer w = spear_write_to(out, capacity);
  spear_put_json(&w, text);
  uint32_t length;
  int32_t rc = spear_finish(&w, &length);
  return rc < 0 ? rc : (int32_t)length;
}
