/*
 * spear-component.h: the calls of spear.h for a component. spear.h includes it when SPEAR_COMPONENT is defined.
 *
 * Each hostcall is implemented with its function of wit/spear.wit: texts are passed unchanged, results are copied
 * into the caller's buffer, and an errno of the WIT becomes its negative number. The host cannot call a component back while
 * it waits, so a blocking send with SPEAR_SEND_AUTO_TOOL_CALL consists of sends with SPEAR_SEND_HAND_BACK: the tools
 * run here, in between. A non-blocking send returns its tool calls to the guest, which sets their results itself.
 */
#ifndef SPEAR_COMPONENT_H
#define SPEAR_COMPONENT_H

#define SPEAR_WIT(interface, name) \
  __attribute__((import_module("spear:host/" interface "@1.1.0"), import_name(name)))

/* The entry. Built as a library (-mexec-model=reactor): the linker would have every other export of a program run the
   program's end, cabi_realloc included. libc's __main_void calls main with the arguments, exit flushes what it printed. */
extern int __main_void(void);
__attribute__((weak, export_name("run"))) int32_t spear_wit_run(void) { exit(__main_void()); }

/* Memory for results of the host. */
__attribute__((weak, export_name("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
  (void)old_size;
  if (size == 0) return (void *)align;
  void *memory = realloc(old, size);
  if (!memory) __builtin_trap();
  return memory;
}

/* result<_, errno>, result<s32, errno> and result<list, errno> as they lie in memory. */
typedef struct {
  uint8_t failed;
  uint8_t error;
} spear_wit_done;

typedef struct {
  uint8_t failed;
  union {
    uint8_t error;
    int32_t value;
  };
} spear_wit_number;

typedef struct {
  uint8_t failed;
  union {
    uint8_t error;
    struct {
      void *bytes;
      uint32_t length;
    };
  };
} spear_wit_bytes;

static inline int32_t spear_wit_errno(uint8_t ordinal) {
  static const uint8_t numbers[] = {
      SPEAR_EPERM,  SPEAR_ENOENT, SPEAR_EINTR,  SPEAR_EIO,      SPEAR_EBADF,      SPEAR_EAGAIN,   SPEAR_ENOMEM,
      SPEAR_EACCES, SPEAR_EFAULT, SPEAR_EBUSY,  SPEAR_EEXIST,   SPEAR_EINVAL,     SPEAR_EMFILE,   SPEAR_ENOSPC,
      SPEAR_EPIPE,  SPEAR_ENOSYS, SPEAR_EMSGSIZE, SPEAR_ECONNRESET, SPEAR_ENOTCONN, SPEAR_ETIMEDOUT, SPEAR_ECANCELED};
  return ordinal < sizeof numbers ? -(int32_t)numbers[ordinal] : -SPEAR_EIO;
}

static inline int32_t spear_wit_nothing(const spear_wit_done *result) {
  return result->failed ? spear_wit_errno(result->error) : 0;
}

static inline int32_t spear_wit_value(const spear_wit_number *result) {
  return result->failed ? spear_wit_errno(result->error) : result->value;
}

static inline void spear_wit_free(spear_wit_bytes *result) {
  if (!result->failed && result->length > 0) free(result->bytes);
}

/* The out-buffer convention. What does not fit is dropped here: the next call returns it again. */
static inline int32_t spear_wit_out(spear_wit_bytes *result, void *out, uint32_t *out_len) {
  if (result->failed) return spear_wit_errno(result->error);
  int fits = result->length <= *out_len;
  *out_len = result->length;
  if (fits && result->length > 0) memcpy(out, result->bytes, result->length);
  spear_wit_free(result);
  return fits ? (int32_t)result->length : -SPEAR_ENOSPC;
}

/* generated from the call table: npm run docs */
SPEAR_WIT("system", "spear-abi-version")
int32_t spear_wit_spear_abi_version(void);
SPEAR_WIT("system", "spear-feature")
int32_t spear_wit_spear_feature(const char *name_ptr, uint32_t name_len);
SPEAR_WIT("clock", "time-now-ms")
int64_t spear_wit_time_now_ms(void);
SPEAR_WIT("clock", "wall-time-s")
int64_t spear_wit_wall_time_s(void);
SPEAR_WIT("clock", "random-i64")
int64_t spear_wit_random_i64(void);
SPEAR_WIT("clock", "sleep-ms")
void spear_wit_sleep_ms(int32_t ms);
SPEAR_WIT("log", "log")
void spear_wit_log(int32_t level, const char *message_ptr, uint32_t message_len, spear_wit_done *result);
SPEAR_WIT("cchat", "cchat-create")
void spear_wit_cchat_create(spear_wit_number *result);
SPEAR_WIT("cchat", "cchat-write-msg")
void spear_wit_cchat_write_msg(int32_t fd, const char *role_ptr, uint32_t role_len, const char *content_ptr, uint32_t content_len, spear_wit_done *result);
SPEAR_WIT("cchat", "cchat-write-fn")
void spear_wit_cchat_write_fn(int32_t fd, const char *json_ptr, uint32_t json_len, spear_wit_done *result);
SPEAR_WIT("cchat", "cchat-write-tool-result")
void spear_wit_cchat_write_tool_result(int32_t fd, const char *id_ptr, uint32_t id_len, const char *content_ptr, uint32_t content_len, spear_wit_done *result);
SPEAR_WIT("cchat", "cchat-ctl")
void spear_wit_cchat_ctl(int32_t fd, int32_t cmd, const char *arg_ptr, uint32_t arg_len, spear_wit_bytes *result);
SPEAR_WIT("cchat", "cchat-send")
void spear_wit_cchat_send(int32_t fd, int32_t flags, spear_wit_number *result);
SPEAR_WIT("cchat", "cchat-recv")
void spear_wit_cchat_recv(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("cchat", "cchat-read")
void spear_wit_cchat_read(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("cchat", "cchat-close")
void spear_wit_cchat_close(int32_t fd, spear_wit_done *result);
SPEAR_WIT("mcp", "mcp-open")
void spear_wit_mcp_open(const char *server_id_ptr, uint32_t server_id_len, spear_wit_number *result);
SPEAR_WIT("mcp", "mcp-list-tools")
void spear_wit_mcp_list_tools(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("mcp", "mcp-call-tool")
void spear_wit_mcp_call_tool(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr, uint32_t args_len, spear_wit_bytes *result);
SPEAR_WIT("mcp", "mcp-submit")
void spear_wit_mcp_submit(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr, uint32_t args_len, spear_wit_number *result);
SPEAR_WIT("mcp", "mcp-result")
void spear_wit_mcp_result(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("mcp", "mcp-close")
void spear_wit_mcp_close(int32_t fd, spear_wit_done *result);
SPEAR_WIT("mcp", "mcp-registry-list")
void spear_wit_mcp_registry_list(spear_wit_bytes *result);
SPEAR_WIT("mcp", "mcp-registry-get")
void spear_wit_mcp_registry_get(const char *server_id_ptr, uint32_t server_id_len, spear_wit_bytes *result);
SPEAR_WIT("mcp", "mcp-list-resources")
void spear_wit_mcp_list_resources(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("mcp", "mcp-read-resource")
void spear_wit_mcp_read_resource(int32_t fd, const char *uri_ptr, uint32_t uri_len, spear_wit_bytes *result);
SPEAR_WIT("mcp", "mcp-list-prompts")
void spear_wit_mcp_list_prompts(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("mcp", "mcp-get-prompt")
void spear_wit_mcp_get_prompt(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr, uint32_t args_len, spear_wit_bytes *result);
SPEAR_WIT("poll", "spear-epoll-create")
void spear_wit_spear_epoll_create(spear_wit_number *result);
SPEAR_WIT("poll", "spear-epoll-ctl")
void spear_wit_spear_epoll_ctl(int32_t epfd, int32_t op, int32_t fd, int32_t events, spear_wit_done *result);
SPEAR_WIT("poll", "spear-epoll-wait")
void spear_wit_spear_epoll_wait(int32_t epfd, int32_t timeout_ms, spear_wit_bytes *result);
SPEAR_WIT("poll", "spear-epoll-close")
void spear_wit_spear_epoll_close(int32_t epfd, spear_wit_done *result);
SPEAR_WIT("poll", "spear-fd-ctl")
void spear_wit_spear_fd_ctl(int32_t fd, int32_t cmd, const char *arg_ptr, uint32_t arg_len, spear_wit_bytes *result);
SPEAR_WIT("poll", "spear-fd-cancel")
void spear_wit_spear_fd_cancel(int32_t fd, spear_wit_done *result);
SPEAR_WIT("user-stream", "user-stream-open")
void spear_wit_user_stream_open(int32_t stream_id, int32_t direction, spear_wit_number *result);
SPEAR_WIT("user-stream", "user-stream-read")
void spear_wit_user_stream_read(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("user-stream", "user-stream-write")
void spear_wit_user_stream_write(int32_t fd, const void *frame_ptr, uint32_t frame_len, spear_wit_done *result);
SPEAR_WIT("user-stream", "user-stream-close")
void spear_wit_user_stream_close(int32_t fd, spear_wit_done *result);
SPEAR_WIT("user-stream", "user-stream-ctl-open")
void spear_wit_user_stream_ctl_open(spear_wit_number *result);
SPEAR_WIT("user-stream", "user-stream-ctl-read")
void spear_wit_user_stream_ctl_read(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("rtasr", "rtasr-create")
void spear_wit_rtasr_create(spear_wit_number *result);
SPEAR_WIT("rtasr", "rtasr-ctl")
void spear_wit_rtasr_ctl(int32_t fd, int32_t cmd, const char *arg_ptr, uint32_t arg_len, spear_wit_bytes *result);
SPEAR_WIT("rtasr", "rtasr-write")
void spear_wit_rtasr_write(int32_t fd, const void *data_ptr, uint32_t data_len, spear_wit_done *result);
SPEAR_WIT("rtasr", "rtasr-read")
void spear_wit_rtasr_read(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("rtasr", "rtasr-close")
void spear_wit_rtasr_close(int32_t fd, spear_wit_done *result);
SPEAR_WIT("mic", "mic-create")
void spear_wit_mic_create(spear_wit_number *result);
SPEAR_WIT("mic", "mic-ctl")
void spear_wit_mic_ctl(int32_t fd, int32_t cmd, const char *arg_ptr, uint32_t arg_len, spear_wit_bytes *result);
SPEAR_WIT("mic", "mic-write")
void spear_wit_mic_write(int32_t fd, const void *data_ptr, uint32_t data_len, spear_wit_done *result);
SPEAR_WIT("mic", "mic-read")
void spear_wit_mic_read(int32_t fd, spear_wit_bytes *result);
SPEAR_WIT("mic", "mic-close")
void spear_wit_mic_close(int32_t fd, spear_wit_done *result);

static inline int32_t spear_abi_version(void) {
  return spear_wit_spear_abi_version();
}
static inline int32_t spear_feature(const char *name_ptr, uint32_t name_len) {
  return spear_wit_spear_feature(name_ptr, name_len);
}
static inline int64_t time_now_ms(void) {
  return spear_wit_time_now_ms();
}
static inline int64_t wall_time_s(void) {
  return spear_wit_wall_time_s();
}
static inline int64_t random_i64(void) {
  return spear_wit_random_i64();
}
static inline void sleep_ms(int32_t ms) {
  spear_wit_sleep_ms(ms);
}
static inline int32_t spear_log(int32_t level, const char *message_ptr, uint32_t message_len) {
  spear_wit_done result;
  spear_wit_log(level, message_ptr, message_len, &result);
  return spear_wit_nothing(&result);
}
static inline int32_t cchat_create(void) {
  spear_wit_number result;
  spear_wit_cchat_create(&result);
  return spear_wit_value(&result);
}
static inline int32_t cchat_write_msg(int32_t fd, const char *role_ptr, uint32_t role_len, const char *content_ptr, uint32_t content_len) {
  spear_wit_done result;
  spear_wit_cchat_write_msg(fd, role_ptr, role_len, content_ptr, content_len, &result);
  return spear_wit_nothing(&result);
}
static inline int32_t cchat_write_tool_result(int32_t fd, const char *id_ptr, uint32_t id_len, const char *content_ptr, uint32_t content_len) {
  spear_wit_done result;
  spear_wit_cchat_write_tool_result(fd, id_ptr, id_len, content_ptr, content_len, &result);
  return spear_wit_nothing(&result);
}
static inline int32_t cchat_recv(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_cchat_recv(fd, &result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
static inline int32_t mcp_open(const char *server_id_ptr, uint32_t server_id_len) {
  spear_wit_number result;
  spear_wit_mcp_open(server_id_ptr, server_id_len, &result);
  return spear_wit_value(&result);
}
static inline int32_t mcp_list_tools(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_mcp_list_tools(fd, &result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
static inline int32_t mcp_submit(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr, uint32_t args_len) {
  spear_wit_number result;
  spear_wit_mcp_submit(fd, name_ptr, name_len, args_ptr, args_len, &result);
  return spear_wit_value(&result);
}
static inline int32_t mcp_result(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_mcp_result(fd, &result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
static inline int32_t mcp_registry_list(void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_mcp_registry_list(&result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
static inline int32_t mcp_registry_get(const char *server_id_ptr, uint32_t server_id_len, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_mcp_registry_get(server_id_ptr, server_id_len, &result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
static inline int32_t mcp_list_resources(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_mcp_list_resources(fd, &result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
static inline int32_t mcp_list_prompts(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_mcp_list_prompts(fd, &result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
static inline int32_t spear_epoll_create(void) {
  spear_wit_number result;
  spear_wit_spear_epoll_create(&result);
  return spear_wit_value(&result);
}
static inline int32_t spear_epoll_ctl(int32_t epfd, int32_t op, int32_t fd, int32_t events) {
  spear_wit_done result;
  spear_wit_spear_epoll_ctl(epfd, op, fd, events, &result);
  return spear_wit_nothing(&result);
}
static inline int32_t spear_fd_cancel(int32_t fd) {
  spear_wit_done result;
  spear_wit_spear_fd_cancel(fd, &result);
  return spear_wit_nothing(&result);
}
static inline int32_t user_stream_open(int32_t stream_id, int32_t direction) {
  spear_wit_number result;
  spear_wit_user_stream_open(stream_id, direction, &result);
  return spear_wit_value(&result);
}
static inline int32_t user_stream_write(int32_t fd, const void *frame_ptr, uint32_t frame_len) {
  spear_wit_done result;
  spear_wit_user_stream_write(fd, frame_ptr, frame_len, &result);
  return spear_wit_nothing(&result);
}
static inline int32_t user_stream_ctl_open(void) {
  spear_wit_number result;
  spear_wit_user_stream_ctl_open(&result);
  return spear_wit_value(&result);
}
static inline int32_t rtasr_create(void) {
  spear_wit_number result;
  spear_wit_rtasr_create(&result);
  return spear_wit_value(&result);
}
static inline int32_t rtasr_write(int32_t fd, const void *data_ptr, uint32_t data_len) {
  spear_wit_done result;
  spear_wit_rtasr_write(fd, data_ptr, data_len, &result);
  return spear_wit_nothing(&result);
}
static inline int32_t rtasr_read(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_rtasr_read(fd, &result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
static inline int32_t mic_create(void) {
  spear_wit_number result;
  spear_wit_mic_create(&result);
  return spear_wit_value(&result);
}
static inline int32_t mic_write(int32_t fd, const void *data_ptr, uint32_t data_len) {
  spear_wit_done result;
  spear_wit_mic_write(fd, data_ptr, data_len, &result);
  return spear_wit_nothing(&result);
}
static inline int32_t mic_read(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_bytes result;
  spear_wit_mic_read(fd, &result);
  return spear_wit_out(&result, out_ptr, out_len_ptr);
}
/* end of the generated part */

/* State of a descriptor in the guest: the tools of a session, and a result that did not fit its buffer. */
typedef struct spear_wit_tool {
  struct spear_wit_tool *next;
  int32_t session;
  spear_tool_fn run;
  char *name;
} spear_wit_tool;

/* What a server is asked for once: a call of a tool, a read without arguments, a prompt. */
typedef void (*spear_wit_question)(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr,
                                   uint32_t args_len, spear_wit_bytes *result);

typedef struct spear_wit_held {
  struct spear_wit_held *next;
  int32_t fd;
  spear_wit_question ask;
  uint32_t name_len, args_len;
  char *request;
  spear_wit_bytes result;
} spear_wit_held;

__attribute__((weak)) spear_wit_tool *spear_wit_tools;
__attribute__((weak)) spear_wit_held *spear_wit_results;

static inline spear_wit_held *spear_wit_find_held(int32_t fd) {
  spear_wit_held *held = spear_wit_results;
  while (held && held->fd != fd) held = held->next;
  return held;
}

static inline void spear_wit_drop_held(spear_wit_held *held) {
  if (!held) return;
  spear_wit_held **link = &spear_wit_results;
  while (*link != held) link = &(*link)->next;
  *link = held->next;
  spear_wit_free(&held->result);
  free(held->request);
  free(held);
}

/* Returns the held result if it fits, otherwise keeps it for a larger buffer. */
static inline int32_t spear_wit_hand_over(spear_wit_held *held, void *out_ptr, uint32_t *out_len_ptr) {
  int32_t rc = held->result.failed ? spear_wit_errno(held->result.error) : (int32_t)held->result.length;
  if (rc >= 0) {
    uint32_t capacity = *out_len_ptr;
    *out_len_ptr = held->result.length;
    if (held->result.length > capacity) return -SPEAR_ENOSPC;
    if (held->result.length > 0) memcpy(out_ptr, held->result.bytes, held->result.length);
  }
  spear_wit_drop_held(held);
  return rc;
}

static inline void spear_wit_forget(int32_t fd) {
  spear_wit_drop_held(spear_wit_find_held(fd));
  for (spear_wit_tool **link = &spear_wit_tools; *link;) {
    spear_wit_tool *tool = *link;
    if (tool->session == fd) {
      *link = tool->next;
      free(tool->name);
      free(tool);
    } else {
      link = &tool->next;
    }
  }
}

#define SPEAR_WIT_CLOSE(name)              \
  static inline int32_t name(int32_t fd) { \
    spear_wit_done result;                 \
    spear_wit_forget(fd);                  \
    spear_wit_##name(fd, &result);         \
    return spear_wit_nothing(&result);     \
  }

SPEAR_WIT_CLOSE(cchat_close)
SPEAR_WIT_CLOSE(mcp_close)
SPEAR_WIT_CLOSE(spear_epoll_close)
SPEAR_WIT_CLOSE(user_stream_close)
SPEAR_WIT_CLOSE(rtasr_close)
SPEAR_WIT_CLOSE(mic_close)

/* Reading consumes the data of the host: what does not fit the buffer is kept here for a larger one. */
#define SPEAR_WIT_READ(name)                                                            \
  static inline int32_t name(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {        \
    spear_wit_held *held = spear_wit_find_held(fd);                                     \
    if (!held) {                                                                        \
      held = (spear_wit_held *)calloc(1, sizeof *held);                                 \
      if (!held) return -SPEAR_ENOMEM;                                                  \
      held->next = spear_wit_results;                                                   \
      held->fd = fd;                                                                    \
      spear_wit_results = held;                                                         \
      spear_wit_##name(fd, &held->result);                                              \
    }                                                                                   \
    return spear_wit_hand_over(held, out_ptr, out_len_ptr);                             \
  }

SPEAR_WIT_READ(user_stream_read)
SPEAR_WIT_READ(user_stream_ctl_read)

/* The first command of every *_ctl takes a text, the others return one. */
#define SPEAR_WIT_CTL(name, wit)                                                                   \
  static inline int32_t name(int32_t fd, int32_t cmd, void *arg_ptr, uint32_t *arg_len_ptr) {      \
    spear_wit_bytes result;                                                                        \
    int takes_text = cmd == 1, gives_text = !takes_text && arg_len_ptr != NULL;                    \
    spear_wit_##wit(fd, cmd, takes_text ? (const char *)arg_ptr : "",                              \
                    takes_text ? *arg_len_ptr : 0, &result);                                       \
    if (gives_text) return spear_wit_out(&result, arg_ptr, arg_len_ptr);                           \
    spear_wit_free(&result);                                                                       \
    return result.failed ? spear_wit_errno(result.error) : 0;                                      \
  }

SPEAR_WIT_CTL(cchat_ctl, cchat_ctl)
SPEAR_WIT_CTL(rtasr_ctl, rtasr_ctl)
SPEAR_WIT_CTL(mic_ctl, mic_ctl)
SPEAR_WIT_CTL(spear_wit_any_ctl, spear_fd_ctl)

static inline int32_t spear_fd_ctl(int32_t fd, int32_t cmd, void *arg_ptr, uint32_t *arg_len_ptr) {
  if (cmd == SPEAR_FD_CLOSE) spear_wit_forget(fd);
  return spear_wit_any_ctl(fd, cmd, arg_ptr, cmd == SPEAR_FD_CLOSE ? NULL : arg_len_ptr);
}

static inline int32_t spear_epoll_wait(int32_t epfd, void *out_ptr, uint32_t *out_len_ptr, int32_t timeout_ms) {
  uint32_t room = *out_len_ptr / sizeof(spear_event);
  if (room == 0) {
    *out_len_ptr = sizeof(spear_event);
    return -SPEAR_ENOSPC;
  }
  spear_wit_bytes ready;
  spear_wit_spear_epoll_wait(epfd, timeout_ms, &ready);
  if (ready.failed) return spear_wit_errno(ready.error);
  uint32_t count = ready.length < room ? ready.length : room;
  *out_len_ptr = count * (uint32_t)sizeof(spear_event);
  if (count > 0) memcpy(out_ptr, ready.bytes, *out_len_ptr);
  spear_wit_free(&ready);
  return (int32_t)count;
}

/* A tool never runs twice for one call: a result that does not fit is kept here for the same call with a larger buffer. */
static inline int32_t spear_wit_once(spear_wit_question ask, int32_t fd, const char *name_ptr, uint32_t name_len,
                                     const char *args_ptr, uint32_t args_len, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_held *held = spear_wit_find_held(fd);
  int same = held && held->ask == ask && held->name_len == name_len && held->args_len == args_len &&
             memcmp(held->request, name_ptr, name_len) == 0 && memcmp(held->request + name_len, args_ptr, args_len) == 0;
  if (!same) {
    spear_wit_drop_held(held);
    held = (spear_wit_held *)calloc(1, sizeof *held);
    char *request = (char *)malloc(name_len + args_len + 1);
    if (!held || !request) {
      free(held);
      free(request);
      return -SPEAR_ENOMEM;
    }
    memcpy(request, name_ptr, name_len);
    memcpy(request + name_len, args_ptr, args_len);
    held->next = spear_wit_results;
    held->fd = fd;
    held->ask = ask;
    held->name_len = name_len;
    held->args_len = args_len;
    held->request = request;
    spear_wit_results = held;
    ask(fd, name_ptr, name_len, args_ptr, args_len, &held->result);
  }
  return spear_wit_hand_over(held, out_ptr, out_len_ptr);
}

static inline void spear_wit_read(int32_t fd, const char *uri_ptr, uint32_t uri_len, const char *args_ptr, uint32_t args_len,
                                  spear_wit_bytes *result) {
  (void)args_ptr, (void)args_len;
  spear_wit_mcp_read_resource(fd, uri_ptr, uri_len, result);
}

static inline int32_t mcp_call_tool(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr,
                                    uint32_t args_len, void *out_ptr, uint32_t *out_len_ptr) {
  return spear_wit_once(spear_wit_mcp_call_tool, fd, name_ptr, name_len, args_ptr, args_len, out_ptr, out_len_ptr);
}

static inline int32_t mcp_read_resource(int32_t fd, const char *uri_ptr, uint32_t uri_len, void *out_ptr,
                                        uint32_t *out_len_ptr) {
  return spear_wit_once(spear_wit_read, fd, uri_ptr, uri_len, "", 0, out_ptr, out_len_ptr);
}

static inline int32_t mcp_get_prompt(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr,
                                     uint32_t args_len, void *out_ptr, uint32_t *out_len_ptr) {
  return spear_wit_once(spear_wit_mcp_get_prompt, fd, name_ptr, name_len, args_ptr, args_len, out_ptr, out_len_ptr);
}

/* The host returns all available events to a component: those that do not fit are kept here, as whole lines. */
static inline int32_t cchat_read(int32_t fd, void *out_ptr, uint32_t *out_len_ptr) {
  spear_wit_held *held = spear_wit_find_held(fd);
  if (!held) {
    held = (spear_wit_held *)calloc(1, sizeof *held);
    if (!held) return -SPEAR_ENOMEM;
    held->next = spear_wit_results;
    held->fd = fd;
    spear_wit_results = held;
    spear_wit_cchat_read(fd, &held->result);
    if (held->result.failed || held->result.length == 0) {
      int32_t rc = held->result.failed ? spear_wit_errno(held->result.error) : 0;
      if (rc == 0) *out_len_ptr = 0;
      spear_wit_drop_held(held);
      return rc;
    }
  }
  const char *lines = (const char *)held->result.bytes + held->args_len; /* what was given before is behind */
  uint32_t left = held->result.length - held->args_len, length = left;
  if (left > *out_len_ptr) {
    for (length = *out_len_ptr; length > 0 && lines[length - 1] != '\n';) length--;
    if (length == 0) {
      *out_len_ptr = (uint32_t)((const char *)memchr(lines, '\n', left) - lines) + 1;
      return -SPEAR_ENOSPC;
    }
  }
  memcpy(out_ptr, lines, length);
  *out_len_ptr = length;
  held->args_len += length;
  if (length == left) spear_wit_drop_held(held);
  return (int32_t)length;
}

static inline int32_t cchat_write_fn(int32_t fd, int32_t fn_offset, const char *json_ptr, uint32_t json_len) {
  spear_wit_done result;
  spear_wit_cchat_write_fn(fd, json_ptr, json_len, &result);
  if (result.failed || fn_offset == SPEAR_TOOL_HANDED_BACK) return spear_wit_nothing(&result);
  char *json = (char *)malloc(json_len + 1);
  spear_wit_tool *tool = (spear_wit_tool *)malloc(sizeof *tool);
  if (!json || !tool) return -SPEAR_ENOMEM;
  memcpy(json, json_ptr, json_len);
  json[json_len] = 0;
  char *name = spear_json_text_alloc(json, "function.name");
  if (!name) name = spear_json_text_alloc(json, "name");
  free(json);
  tool->next = spear_wit_tools;
  tool->session = fd;
  tool->run = (spear_tool_fn)(intptr_t)fn_offset;
  tool->name = name;
  spear_wit_tools = tool;
  return 0;
}

#define SPEAR_WIT_TOOL_OUTPUT 65536u
#define SPEAR_WIT_TOOL_OUTPUT_MAX 1048576u

/* Runs the tool of one handed-back call and sets its result, also if there is no such tool or it fails. */
static inline int32_t spear_wit_answer_call(int32_t session, const char *call) {
  char *id = spear_json_text_alloc(call, "id");
  char *name = spear_json_text_alloc(call, "name");
  char *arguments = spear_json_text_alloc(call, "arguments");
  uint32_t capacity = SPEAR_WIT_TOOL_OUTPUT, length = capacity;
  char *output = (char *)malloc(capacity);
  spear_wit_tool *tool = spear_wit_tools;
  while (tool && !(tool->session == session && name && tool->name && strcmp(tool->name, name) == 0)) tool = tool->next;
  int32_t rc = -SPEAR_ENOSYS;
  if (tool && output) {
    const char *args = arguments ? arguments : "";
    rc = tool->run(args, (uint32_t)strlen(args), output, &length);
    if (rc == -SPEAR_ENOSPC && length > capacity && length <= SPEAR_WIT_TOOL_OUTPUT_MAX) {
      free(output);
      capacity = length;
      output = (char *)malloc(capacity);
      if (output) rc = tool->run(args, (uint32_t)strlen(args), output, &length);
    }
  }
  char failure[96];
  if (rc != 0 || !output || length > capacity) {
    length = (uint32_t)snprintf(failure, sizeof failure,
                                "{\"error\":{\"code\":\"tool_exec_failed\",\"message\":\"tool rc: %d\"}}", (int)rc);
    rc = cchat_write_tool_result(session, id ? id : "", id ? (uint32_t)strlen(id) : 0, failure, length);
  } else {
    rc = cchat_write_tool_result(session, id ? id : "", id ? (uint32_t)strlen(id) : 0, output, length);
  }
  free(id);
  free(name);
  free(arguments);
  free(output);
  return rc;
}

static inline int32_t cchat_send(int32_t fd, int32_t flags) {
  int runs_tools = (flags & SPEAR_SEND_AUTO_TOOL_CALL) && !(flags & SPEAR_SEND_HAND_BACK);
  if (runs_tools) flags = (flags & ~SPEAR_SEND_AUTO_TOOL_CALL) | SPEAR_SEND_HAND_BACK;
  for (;;) {
    spear_wit_number sent;
    spear_wit_cchat_send(fd, flags, &sent);
    int32_t response = spear_wit_value(&sent);
    if (!runs_tools || response < 0 || (flags & SPEAR_SEND_STREAM)) return response;
    int32_t length;
    char *body = spear_recv_alloc(response, &length);
    const char *pending = body ? spear_json_at(body, "_spear.pending_tool_calls") : NULL;
    const char *call;
    uint32_t answered = 0;
    int32_t rc = 0;
    for (; rc == 0 && (call = spear_json_item(pending, answered)); answered++) rc = spear_wit_answer_call(fd, call);
    free(body);
    if (answered == 0) return response;
    cchat_close(response);
    if (rc < 0) return rc;
  }
}

#endif
