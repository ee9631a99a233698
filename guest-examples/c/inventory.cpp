// In C++: a session that closes itself, and a tool that is a lambda.
#include "spear.h"

namespace {

struct Part {
  const char *name;
  int stock;
};

constexpr Part parts[] = {{"bearing", 14}, {"gasket", 0}, {"rotor", 3}};

class Chat {
 public:
  Chat() : fd_(cchat_create()) {}
  ~Chat() { cchat_close(fd_); }
  Chat(const Chat &) = delete;
  Chat &operator=(const Chat &) = delete;
  operator int32_t() const { return fd_; }

 private:
  int32_t fd_;
};

// A lambda without captures is a function, and so has a place in the table.
constexpr auto stock = [](const char *args, uint32_t, char *out, uint32_t *out_len) -> int32_t {
  char wanted[32];
  spear_json_text(args, "part", wanted, sizeof wanted);
  spear_writer w = spear_write_to(out, *out_len);
  for (const Part &part : parts) {
    if (strcmp(part.name, wanted) == 0) spear_putf(&w, "{\"stock\":%d}", part.stock);
  }
  if (w.length == 0) spear_put(&w, "{\"error\":\"no such part\"}");
  return spear_finish(&w, out_len);
};

}  // namespace

int main() {
  Chat chat;
  SPEAR_TOOL_ARENA(chat, 4096);
  spear_tool(chat, stock,
             R"({"name":"stock","description":"How many of a part are there.",)"
             R"("parameters":{"type":"object","properties":{"part":{"type":"string"}},"required":["part"]}})");
  spear_chat_say(chat, "user", "Are there four rotors?");
  int failed;
  char *answer = spear_answer(cchat_send(chat, SPEAR_SEND_AUTO_TOOL_CALL), &failed);
  puts(answer);
  free(answer);
  return failed;
}
