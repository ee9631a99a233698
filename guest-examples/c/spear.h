/*
 * spear.h: the hostcalls for a guest written in C or C++. One header, nothing to link.
 *
 *   clang --target=wasm32-wasi -Os -Wl,--export-table -Wl,--strip-debug guest.c -o guest.wasm
 *
 * With -DSPEAR_COMPONENT the same source becomes a component: keep spear-component.h beside this file, see docs/guests/c.md.
 *
 * The first half declares the ABI, the second half (from "Conveniences" on) is small inline code on top of it.
 *
 * Rules for every call:
 *   - A negative result is a Linux errno: -SPEAR_EBADF, -SPEAR_EAGAIN and so on.
 *   - Text goes in as (ptr, len), UTF-8, no NUL needed.
 *   - Bytes come out through (out_ptr, out_len_ptr). Put the capacity in *out_len_ptr; on success it holds the
 *     length, which is also returned. -SPEAR_ENOSPC: *out_len_ptr holds the required size, nothing was written and
 *     nothing is lost, so call again with a larger buffer.
 *   - All descriptors share one table. Numbers are never reused: a stale descriptor is -SPEAR_EBADF.
 *   - A call that waits suspends only this guest. Other guests continue.
 */
#ifndef SPEAR_H
#define SPEAR_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPEAR_ABI_MAJOR 1
#define SPEAR_ABI_MINOR 1

/* Errno numbers of Linux. The <errno.h> of wasi-libc has different numbers for the same names. */
#define SPEAR_EPERM 1
#define SPEAR_ENOENT 2
#define SPEAR_EINTR 4
#define SPEAR_EIO 5
#define SPEAR_EBADF 9
#define SPEAR_EAGAIN 11
#define SPEAR_ENOMEM 12
#define SPEAR_EACCES 13
#define SPEAR_EFAULT 14
#define SPEAR_EBUSY 16
#define SPEAR_EEXIST 17
#define SPEAR_EINVAL 22
#define SPEAR_EMFILE 24
#define SPEAR_ENOSPC 28
#define SPEAR_EPIPE 32
#define SPEAR_ENOSYS 38
#define SPEAR_EMSGSIZE 90
#define SPEAR_ECONNRESET 104
#define SPEAR_ENOTCONN 107
#define SPEAR_ETIMEDOUT 110
#define SPEAR_ECANCELED 125

/* Levels of spear_log: trace and debug show with --verbose only, warn and error go to stderr. */
#define SPEAR_LOG_TRACE 0
#define SPEAR_LOG_DEBUG 1
#define SPEAR_LOG_INFO 2
#define SPEAR_LOG_WARN 3
#define SPEAR_LOG_ERROR 4

/* Flags of cchat_send. */
#define SPEAR_SEND_METRICS 1        /* collect metrics for SPEAR_CHAT_GET_METRICS */
#define SPEAR_SEND_AUTO_TOOL_CALL 2 /* the host runs the tool loop and calls the guest's tools back */
#define SPEAR_SEND_HAND_BACK 4      /* the send ends with _spear.pending_tool_calls; the guest sets their results */
#define SPEAR_SEND_STREAM 8         /* returns immediately; cchat_read returns the response as it arrives */

/* fn_offset of a tool without a callback: its calls are handed back. */
#define SPEAR_TOOL_HANDED_BACK (-1)

/* Commands of cchat_ctl. */
#define SPEAR_CHAT_SET_PARAM 1
#define SPEAR_CHAT_GET_METRICS 2

/* Commands of spear_fd_ctl. */
#define SPEAR_FD_SET_FLAGS 1
#define SPEAR_FD_GET_FLAGS 2
#define SPEAR_FD_GET_KIND 3
#define SPEAR_FD_GET_STATUS 4
#define SPEAR_FD_GET_METRICS 5
#define SPEAR_FD_CLOSE 6

/* Operations and events of spear_epoll_ctl. ERR and HUP are always reported. */
#define SPEAR_EPOLL_CTL_ADD 1
#define SPEAR_EPOLL_CTL_MOD 2
#define SPEAR_EPOLL_CTL_DEL 3
#define SPEAR_EPOLLIN 1
#define SPEAR_EPOLLOUT 4
#define SPEAR_EPOLLERR 8
#define SPEAR_EPOLLHUP 16

/* Directions of user_stream_open, kinds of a user stream event. */
#define SPEAR_STREAM_IN 1
#define SPEAR_STREAM_OUT 2
#define SPEAR_STREAM_BOTH 3
#define SPEAR_STREAM_CONNECTED 1
#define SPEAR_STREAM_CLOSED 2

/* What spear_epoll_wait writes. */
typedef struct {
  int32_t fd;
  int32_t events;
} spear_event;

/* What user_stream_ctl_read writes. */
typedef struct {
  uint32_t stream_id;
  uint32_t kind;
} spear_stream_event;

/*
 * A guest tool. args_ptr is the JSON that the model sent, with a NUL after it. Write the output (JSON or plain UTF-8 text)
 * to out_ptr, its length to *out_len_ptr, and return 0. If the output is larger than *out_len_ptr, store the required size there and
 * return -SPEAR_ENOSPC; the host calls again if the arena has the room. Any other result reports to the model that the
 * tool failed. A tool may make hostcalls, including suspending ones.
 */
typedef int32_t (*spear_tool_fn)(const char *args_ptr, uint32_t args_len, char *out_ptr, uint32_t *out_len_ptr);

#ifdef SPEAR_COMPONENT
#define SPEAR_IMPORT(name) static inline /* defined in spear-component.h */
#else
#define SPEAR_IMPORT(name) __attribute__((import_module("spear"), import_name(#name)))
#endif

/* The host. */

/* major << 16 | minor. */
SPEAR_IMPORT(spear_abi_version) int32_t spear_abi_version(void);
/* 1 if the host supports the named feature, else 0. */
SPEAR_IMPORT(spear_feature) int32_t spear_feature(const char *name_ptr, uint32_t name_len);
SPEAR_IMPORT(time_now_ms) int64_t time_now_ms(void);
SPEAR_IMPORT(wall_time_s) int64_t wall_time_s(void);
SPEAR_IMPORT(random_i64) int64_t random_i64(void);
SPEAR_IMPORT(sleep_ms) void sleep_ms(int32_t ms);
/* At most 16384 bytes. Named log in the ABI: C keeps that name for the logarithm. */
SPEAR_IMPORT(log) int32_t spear_log(int32_t level, const char *message_ptr, uint32_t message_len);

/* Chat. A session collects messages, tools and parameters; a send creates a response. */

/* A session. */
SPEAR_IMPORT(cchat_create) int32_t cchat_create(void);
/* Roles: system, user, assistant. */
SPEAR_IMPORT(cchat_write_msg) int32_t cchat_write_msg(int32_t fd, const char *role_ptr, uint32_t role_len,
                                                      const char *content_ptr, uint32_t content_len);
/* A tool: {"type":"function","function":{name, description, parameters}} or the inner object alone. fn_offset is the
   callback's index in the exported function table, which is what a C function pointer is. */
SPEAR_IMPORT(cchat_write_fn) int32_t cchat_write_fn(int32_t fd, int32_t fn_offset, const char *json_ptr, uint32_t json_len);
/* Sets the result of one handed-back call. An id that is not pending: ENOENT. */
SPEAR_IMPORT(cchat_write_tool_result) int32_t cchat_write_tool_result(int32_t fd, const char *id_ptr, uint32_t id_len,
                                                                      const char *content_ptr, uint32_t content_len);
/* SET_PARAM takes {"key":…,"value":…} of *arg_len_ptr bytes; GET_METRICS, of a response, writes like an out-buffer. */
SPEAR_IMPORT(cchat_ctl) int32_t cchat_ctl(int32_t fd, int32_t cmd, void *arg_ptr, uint32_t *arg_len_ptr);
/* Sends to the model; returns a response. With O_NONBLOCK on the session it returns immediately. A session with a pending send:
   EBUSY. What goes wrong at the provider is no errno but a response whose body is {"error":{code, message, retryable}}. */
SPEAR_IMPORT(cchat_send) int32_t cchat_send(int32_t fd, int32_t flags);
/* The whole body of a response; every call returns the same. EAGAIN: pending. ECANCELED: canceled. */
SPEAR_IMPORT(cchat_recv) int32_t cchat_recv(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
/* Events of a send with SPEAR_SEND_STREAM: as many as fit, one JSON line each, 0 bytes after the last one. Waits for one,
   or EAGAIN with O_NONBLOCK. The tools of a module run while it waits; in a component they are handed back. */
SPEAR_IMPORT(cchat_read) int32_t cchat_read(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
/* Closes a descriptor of any kind, as every *_close does. Closing twice is allowed. */
SPEAR_IMPORT(cchat_close) int32_t cchat_close(int32_t fd);

/* MCP servers called by the guest itself. The tools that the model may use need no code: the host offers them. */

/* A session with a registered server. EACCES: not allowed for this task. ENOENT: unknown server. */
SPEAR_IMPORT(mcp_open) int32_t mcp_open(const char *server_id_ptr, uint32_t server_id_len);
/* {"server_id":…,"tools":[{description, inputSchema, name}]} */
SPEAR_IMPORT(mcp_list_tools) int32_t mcp_list_tools(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
/* args: a JSON object, or nothing. A denied or failed call is a result {"error":…}, not an errno. After ENOSPC the
   same call with the same bytes fetches the result that is waiting: the tool never runs twice. */
SPEAR_IMPORT(mcp_call_tool) int32_t mcp_call_tool(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr,
                                                  uint32_t args_len, void *out_ptr, uint32_t *out_len_ptr);
/* Starts a call and returns its descriptor immediately: calls can run concurrently. EAGAIN: too many. */
SPEAR_IMPORT(mcp_submit) int32_t mcp_submit(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr,
                                            uint32_t args_len);
/* Waits for a submitted call, or EAGAIN with O_NONBLOCK. */
SPEAR_IMPORT(mcp_result) int32_t mcp_result(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
SPEAR_IMPORT(mcp_close) int32_t mcp_close(int32_t fd);
/* {"revision":…,"servers":[{display_name, server_id, transport}]}: the servers that this task may use. */
SPEAR_IMPORT(mcp_registry_list) int32_t mcp_registry_list(void *out_ptr, uint32_t *out_len_ptr);
SPEAR_IMPORT(mcp_registry_get) int32_t mcp_registry_get(const char *server_id_ptr, uint32_t server_id_len, void *out_ptr,
                                                        uint32_t *out_len_ptr);
/* Resources and prompts, since 1.1: features "mcp.resources" and "mcp.prompts". Only what policy allows this
   guest have is listed. What is refused or fails is a result {"error":…}, and after ENOSPC it waits, as for a tool. */

/* {"resources":[{name, uri, …}],"server_id":…,"templates":[{name, uriTemplate, …}]} */
SPEAR_IMPORT(mcp_list_resources) int32_t mcp_list_resources(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
/* {"contents":[{uri, text or blob, …}]} */
SPEAR_IMPORT(mcp_read_resource) int32_t mcp_read_resource(int32_t fd, const char *uri_ptr, uint32_t uri_len, void *out_ptr,
                                                          uint32_t *out_len_ptr);
/* {"prompts":[{arguments, name, …}],"server_id":…} */
SPEAR_IMPORT(mcp_list_prompts) int32_t mcp_list_prompts(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
/* args: a JSON object of strings, or nothing. {"messages":[{content, role}]} */
SPEAR_IMPORT(mcp_get_prompt) int32_t mcp_get_prompt(int32_t fd, const char *name_ptr, uint32_t name_len, const char *args_ptr,
                                                    uint32_t args_len, void *out_ptr, uint32_t *out_len_ptr);

/* Waiting for many. A response is IN when cchat_recv has its body, a session is OUT while it is not sending. The tools
   of a non-blocking AUTO_TOOL_CALL send run while the guest is inside spear_epoll_wait. */

SPEAR_IMPORT(spear_epoll_create) int32_t spear_epoll_create(void);
SPEAR_IMPORT(spear_epoll_ctl) int32_t spear_epoll_ctl(int32_t epfd, int32_t op, int32_t fd, int32_t events);
/* Writes spear_event records by ascending fd and returns how many. timeout_ms below 0: no limit; 0: poll. */
SPEAR_IMPORT(spear_epoll_wait) int32_t spear_epoll_wait(int32_t epfd, void *out_ptr, uint32_t *out_len_ptr,
                                                        int32_t timeout_ms);
SPEAR_IMPORT(spear_epoll_close) int32_t spear_epoll_close(int32_t epfd);
/* SET_FLAGS takes {"set":["O_NONBLOCK"],"clear":[]}, the GET commands write JSON. */
SPEAR_IMPORT(spear_fd_ctl) int32_t spear_fd_ctl(int32_t fd, int32_t cmd, void *arg_ptr, uint32_t *arg_len_ptr);
/* Cancels the pending operation of a response or an MCP call: it reports ERR and HUP, its result is ECANCELED. */
SPEAR_IMPORT(spear_fd_cancel) int32_t spear_fd_cancel(int32_t fd);

/* Frames to and from a client of this run (spear-run --stream); ENOTCONN if the run has no client transport. */

SPEAR_IMPORT(user_stream_open) int32_t user_stream_open(int32_t stream_id, int32_t direction);
SPEAR_IMPORT(user_stream_read) int32_t user_stream_read(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
SPEAR_IMPORT(user_stream_write) int32_t user_stream_write(int32_t fd, const void *frame_ptr, uint32_t frame_len);
SPEAR_IMPORT(user_stream_close) int32_t user_stream_close(int32_t fd);
SPEAR_IMPORT(user_stream_ctl_open) int32_t user_stream_ctl_open(void);
SPEAR_IMPORT(user_stream_ctl_read) int32_t user_stream_ctl_read(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);

/* Speech recognition and microphone: reserved names for guests that link them, all ENOSYS. */

SPEAR_IMPORT(rtasr_create) int32_t rtasr_create(void);
SPEAR_IMPORT(rtasr_ctl) int32_t rtasr_ctl(int32_t fd, int32_t cmd, void *arg_ptr, uint32_t *arg_len_ptr);
SPEAR_IMPORT(rtasr_write) int32_t rtasr_write(int32_t fd, const void *data_ptr, uint32_t data_len);
SPEAR_IMPORT(rtasr_read) int32_t rtasr_read(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
SPEAR_IMPORT(rtasr_close) int32_t rtasr_close(int32_t fd);
SPEAR_IMPORT(mic_create) int32_t mic_create(void);
SPEAR_IMPORT(mic_ctl) int32_t mic_ctl(int32_t fd, int32_t cmd, void *arg_ptr, uint32_t *arg_len_ptr);
SPEAR_IMPORT(mic_write) int32_t mic_write(int32_t fd, const void *data_ptr, uint32_t data_len);
SPEAR_IMPORT(mic_read) int32_t mic_read(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);
SPEAR_IMPORT(mic_close) int32_t mic_close(int32_t fd);

/* Conveniences: from here on the header only combines the calls above. */

static inline int32_t spear_log_text(int32_t level, const char *text) {
  return spear_log(level, text, (uint32_t)strlen(text));
}
static inline int32_t spear_log_trace(const char *text) { return spear_log_text(SPEAR_LOG_TRACE, text); }
static inline int32_t spear_log_debug(const char *text) { return spear_log_text(SPEAR_LOG_DEBUG, text); }
static inline int32_t spear_log_info(const char *text) { return spear_log_text(SPEAR_LOG_INFO, text); }
static inline int32_t spear_log_warn(const char *text) { return spear_log_text(SPEAR_LOG_WARN, text); }
static inline int32_t spear_log_error(const char *text) { return spear_log_text(SPEAR_LOG_ERROR, text); }

/*
 * Writes text into a buffer that may be too small: it keeps counting past the end, so that spear_finish can request
 * the required size. The whole output of a tool is spear_write_to, some spear_put…, return spear_finish.
 */
typedef struct {
  char *out;
  uint32_t capacity;
  uint32_t length;
} spear_writer;

static inline spear_writer spear_write_to(char *out, uint32_t capacity) {
  spear_writer w = {out, capacity, 0};
  return w;
}

static inline void spear_put_bytes(spear_writer *w, const char *bytes, uint32_t length) {
  if (w->length <= w->capacity && length <= w->capacity - w->length) memcpy(w->out + w->length, bytes, length);
  w->length += length;
}

static inline void spear_put(spear_writer *w, const char *text) { spear_put_bytes(w, text, (uint32_t)strlen(text)); }

/* At most 511 bytes at a time. */
__attribute__((format(printf, 2, 3))) static inline void spear_putf(spear_writer *w, const char *format, ...) {
  char piece[512];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(piece, sizeof piece, format, values);
  va_end(values);
  if (length > 0) spear_put_bytes(w, piece, length < (int)sizeof piece ? (uint32_t)length : (uint32_t)sizeof piece - 1);
}

/* A JSON string, including quotes and escapes. */
static inline void spear_put_json(spear_writer *w, const char *text) {
  static const char hex[] = "0123456789abcdef";
  spear_put_bytes(w, "\"", 1);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    const char code[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    if (c == '\n') spear_put_bytes(w, "\\n", 2);
    else if (c < 0x20) spear_put_bytes(w, code, sizeof code);
    else {
      if (c == '"' || c == '\\') spear_put_bytes(w, "\\", 1);
      spear_put_bytes(w, text, 1);
    }
  }
  spear_put_bytes(w, "\"", 1);
}

/* What a tool returns: 0, or -SPEAR_ENOSPC with the required size in *out_len. */
static inline int32_t spear_finish(const spear_writer *w, uint32_t *out_len) {
  *out_len = w->length;
  return w->length <= w->capacity ? 0 : -SPEAR_ENOSPC;
}

static inline int32_t spear_chat_say(int32_t session, const char *role, const char *text) {
  return cchat_write_msg(session, role, (uint32_t)strlen(role), text, (uint32_t)strlen(text));
}

/* The function of a tool is its table index: link with -Wl,--export-table so that the host can see the table. */
static inline int32_t spear_tool(int32_t session, spear_tool_fn fn, const char *json) {
  return cchat_write_fn(session, (int32_t)(intptr_t)fn, json, (uint32_t)strlen(json));
}

/* json_value is JSON: "0.2", "true", "\"gpt-5\"". */
static inline int32_t spear_set_param(int32_t session, const char *key, const char *json_value) {
  uint32_t capacity = (uint32_t)(strlen(key) * 6 + strlen(json_value) + 24);
  char *json = (char *)malloc(capacity);
  if (!json) return -SPEAR_ENOMEM;
  spear_writer w = spear_write_to(json, capacity);
  spear_put(&w, "{\"key\":");
  spear_put_json(&w, key);
  spear_put(&w, ",\"value\":");
  spear_put(&w, json_value);
  spear_put(&w, "}");
  int32_t rc = cchat_ctl(session, SPEAR_CHAT_SET_PARAM, json, &w.length);
  free(json);
  return rc;
}

static inline int32_t spear_set_param_int(int32_t session, const char *key, int32_t value) {
  char digits[12];
  snprintf(digits, sizeof digits, "%d", (int)value);
  return spear_set_param(session, key, digits);
}

static inline int32_t spear_set_param_text(int32_t session, const char *key, const char *text) {
  uint32_t capacity = (uint32_t)(strlen(text) * 6 + 3);
  char *json = (char *)malloc(capacity);
  if (!json) return -SPEAR_ENOMEM;
  spear_writer w = spear_write_to(json, capacity - 1);
  spear_put_json(&w, text);
  json[w.length] = 0;
  int32_t rc = spear_set_param(session, key, json);
  free(json);
  return rc;
}

static inline int32_t spear_set_arena(int32_t session, void *memory, uint32_t length) {
  int32_t rc = spear_set_param_int(session, "tool_arena_ptr", (int32_t)(intptr_t)memory);
  return rc < 0 ? rc : spear_set_param_int(session, "tool_arena_len", (int32_t)length);
}

/*
 * Memory in which the host passes the arguments of a tool and reads its output: required by every session with tools.
 * Each use in the source has its own arena. Two sessions may share one unless a tool of the first sends on the second.
 */
#define SPEAR_TOOL_ARENA(session, bytes)                                 \
  ({                                                                     \
    static unsigned char spear_arena[bytes] __attribute__((aligned(8))); \
    spear_set_arena((session), spear_arena, (uint32_t)sizeof spear_arena); \
  })

static inline int32_t spear_nonblocking(int32_t fd) {
  char json[] = "{\"set\":[\"O_NONBLOCK\"],\"clear\":[]}";
  uint32_t length = sizeof json - 1;
  return spear_fd_ctl(fd, SPEAR_FD_SET_FLAGS, json, &length);
}

/* Up to max events, or a negative errno. */
static inline int32_t spear_wait(int32_t epfd, spear_event *events, uint32_t max, int32_t timeout_ms) {
  uint32_t bytes = max * (uint32_t)sizeof *events;
  return spear_epoll_wait(epfd, events, &bytes, timeout_ms);
}

/*
 * User streams. A frame is a header of 32 bytes or more, meta and data; type, flags and sequence are defined by you and the
 * client. The hostcalls for reading and writing never wait; these two functions do.
 */
#define SPEAR_FRAME_MAX 262144
#define SPEAR_FRAME_HEADER 32

typedef struct {
  uint16_t type;
  uint16_t flags;
  uint64_t sequence;
  const char *meta;
  uint32_t meta_length;
  const char *data;
  uint32_t data_length;
} spear_frame;

/* 0 when one of the events is ready or the client has ended; a negative errno. */
static inline int32_t spear_stream_wait(int32_t fd, int32_t events) {
  spear_event ready;
  int32_t epfd = spear_epoll_create();
  int32_t rc = epfd < 0 ? epfd : spear_epoll_ctl(epfd, SPEAR_EPOLL_CTL_ADD, fd, events);
  if (rc == 0) rc = spear_wait(epfd, &ready, 1, -1);
  if (epfd >= 0) spear_epoll_close(epfd);
  return rc < 0 ? rc : 0;
}

/*
 * Waits for the next frame, which stays in a buffer of SPEAR_FRAME_MAX bytes until the next call. 1, or 0 when the client
 * has ended its side, or a negative errno.
 */
static inline int32_t spear_stream_receive(int32_t fd, void *buffer, spear_frame *frame) {
  for (;;) {
    uint32_t length = SPEAR_FRAME_MAX;
    int32_t rc = user_stream_read(fd, buffer, &length);
    if (rc == -SPEAR_EPIPE) return 0;
    if (rc >= 0) {
      const char *bytes = (const char *)buffer;
      uint16_t header;
      memcpy(&header, bytes + 6, 2);
      memcpy(&frame->type, bytes + 8, 2);
      memcpy(&frame->flags, bytes + 10, 2);
      memcpy(&frame->sequence, bytes + 16, 8);
      memcpy(&frame->meta_length, bytes + 24, 4);
      memcpy(&frame->data_length, bytes + 28, 4);
      frame->meta = bytes + header;
      frame->data = frame->meta + frame->meta_length;
      return 1;
    }
    if (rc != -SPEAR_EAGAIN || (rc = spear_stream_wait(fd, SPEAR_EPOLLIN)) < 0) return rc;
  }
}

/* Sends a frame, waiting for room. 0, or a negative errno: -SPEAR_EPIPE when the client has disconnected. */
static inline int32_t spear_stream_send(int32_t fd, uint32_t stream_id, const spear_frame *frame) {
  uint64_t length = (uint64_t)SPEAR_FRAME_HEADER + frame->meta_length + frame->data_length;
  char *bytes = length > SPEAR_FRAME_MAX ? NULL : (char *)calloc(1, (size_t)length);
  if (!bytes) return length > SPEAR_FRAME_MAX ? -SPEAR_EMSGSIZE : -SPEAR_ENOMEM;
  const uint16_t version = 1, header = SPEAR_FRAME_HEADER;
  memcpy(bytes, "SPST", 4);
  memcpy(bytes + 4, &version, 2);
  memcpy(bytes + 6, &header, 2);
  memcpy(bytes + 8, &frame->type, 2);
  memcpy(bytes + 10, &frame->flags, 2);
  memcpy(bytes + 12, &stream_id, 4);
  memcpy(bytes + 16, &frame->sequence, 8);
  memcpy(bytes + 24, &frame->meta_length, 4);
  memcpy(bytes + 28, &frame->data_length, 4);
  if (frame->meta_length) memcpy(bytes + SPEAR_FRAME_HEADER, frame->meta, frame->meta_length);
  if (frame->data_length) memcpy(bytes + SPEAR_FRAME_HEADER + frame->meta_length, frame->data, frame->data_length);
  int32_t rc;
  while ((rc = user_stream_write(fd, bytes, (uint32_t)length)) == -SPEAR_EAGAIN) {
    if ((rc = spear_stream_wait(fd, SPEAR_EPOLLOUT)) < 0) break;
  }
  free(bytes);
  return rc;
}

/*
 * The whole output of cchat_recv, mcp_list_tools or mcp_result for fd, with a NUL after it; free() it. NULL on failure.
 * *length is the number of bytes, or the negative errno.
 */
typedef int32_t (*spear_reader)(int32_t fd, void *out_ptr, uint32_t *out_len_ptr);

static inline char *spear_read_alloc(spear_reader read, int32_t fd, int32_t *length) {
  uint32_t capacity = 4096;
  for (char *text = NULL;;) {
    char *larger = (char *)realloc(text, capacity + 1);
    if (!larger) {
      free(text);
      *length = -SPEAR_ENOMEM;
      return NULL;
    }
    text = larger;
    uint32_t size = capacity;
    *length = read(fd, text, &size);
    if (*length >= 0) {
      text[*length] = 0;
      return text;
    }
    if (*length != -SPEAR_ENOSPC) {
      free(text);
      return NULL;
    }
    capacity = size;
  }
}

static inline char *spear_recv_alloc(int32_t response, int32_t *length) {
  return spear_read_alloc(cchat_recv, response, length);
}

/*
 * Reading JSON without a tree: a value is a pointer to its first character inside the NUL-terminated text. NULL means
 * missing or malformed, and every function here accepts NULL as a missing value.
 */
static inline const char *spear_json_space(const char *p) {
  while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') p++;
  return p;
}

/*
 * Iterates over the events of a streamed send:
 *
 *   spear_stream stream = spear_stream_of(cchat_send(session, SPEAR_SEND_STREAM));
 *   for (const char *event; (event = spear_stream_next(&stream));) …
 *
 * An event is JSON such as {"text":"…","type":"text"}, valid until the next call. NULL: the stream has ended, or `failed` holds a
 * negative errno. spear_answer(stream.response, …) then returns the whole answer.
 */
typedef struct {
  int32_t response;
  int32_t failed;
  char *lines;
  char *next;
} spear_stream;

static inline spear_stream spear_stream_of(int32_t response) {
  spear_stream stream = {response, response < 0 ? response : 0, NULL, NULL};
  return stream;
}

static inline const char *spear_stream_next(spear_stream *stream) {
  if (stream->failed) return NULL;
  if (!stream->next || !*stream->next) {
    int32_t length;
    free(stream->lines);
    stream->next = stream->lines = spear_read_alloc(cchat_read, stream->response, &length);
    if (length < 0) stream->failed = length;
    if (length <= 0) return NULL;
  }
  char *event = stream->next;
  char *end = strchr(event, '\n');
  if (end) *end = 0;
  stream->next = end ? end + 1 : event + strlen(event);
  return event;
}

/* The first character after a value. */
static inline const char *spear_json_end(const char *value) {
  int depth = 0;
  const char *p = value;
  do {
    if (*p == '"') {
      for (p++; *p != '"'; p++) {
        if (*p == '\\') p++;
        if (!*p) return NULL;
      }
      p++;
    } else if (*p == '{' || *p == '[') {
      depth++;
      p++;
    } else if (*p == '}' || *p == ']') {
      depth--;
      p++;
    } else if (depth > 0 && (*p == ',' || *p == ':')) {
      p++;
    } else {
      const char *start = p;
      while (*p && !strchr("\"{}[],: \n\r\t", *p)) p++;
      if (p == start) return NULL;
    }
    if (depth > 0) p = spear_json_space(p);
  } while (depth > 0);
  return depth < 0 ? NULL : p;
}

static inline int32_t spear_json_hex4(const char *p) {
  int32_t unit = 0;
  for (int i = 0; i < 4; i++) {
    char c = p[i];
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    unit = unit << 4 | digit;
  }
  return unit;
}

/* Decodes one character of a string into 1 to 4 bytes of UTF-8; 0 at the closing quote, -1 if malformed. */
static inline int spear_json_char(const char **cursor, char utf8[4]) {
  const char *p = *cursor;
  if (*p == '"') return 0;
  if (!*p) return -1;
  if (*p != '\\') {
    utf8[0] = *p;
    *cursor = p + 1;
    return 1;
  }
  static const char plain[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
  const char *found = p[1] ? strchr(plain, p[1]) : NULL;
  if (found) {
    utf8[0] = meaning[found - plain];
    *cursor = p + 2;
    return 1;
  }
  int32_t code = p[1] == 'u' ? spear_json_hex4(p + 2) : -1;
  if (code < 0) return -1;
  p += 6;
  if (code >= 0xd800 && code < 0xe000) {
    int32_t low = code < 0xdc00 && p[0] == '\\' && p[1] == 'u' ? spear_json_hex4(p + 2) : -1;
    if (low >= 0xdc00 && low < 0xe000) {
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
      p += 6;
    } else {
      code = 0xfffd;
    }
  }
  *cursor = p;
  if (code < 0x80) {
    utf8[0] = (char)code;
    return 1;
  }
  int bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (int i = bytes - 1; i > 0; i--, code >>= 6) utf8[i] = (char)(0x80 | (code & 0x3f));
  utf8[0] = (char)((0xf00 >> bytes & 0xff) | code);
  return bytes;
}

/* Whether the JSON string at value, once decoded, is these bytes. */
static inline int spear_json_is(const char *value, const char *bytes, uint32_t length) {
  if (!value || *value != '"') return 0;
  const char *p = value + 1;
  char utf8[4];
  for (int n; (n = spear_json_char(&p, utf8)) > 0; bytes += n, length -= (uint32_t)n) {
    if (length < (uint32_t)n || memcmp(bytes, utf8, (size_t)n) != 0) return 0;
  }
  return *p == '"' && length == 0;
}

/* The index-th item of an array, or the member of an object whose name is these bytes. */
static inline const char *spear_json_child(const char *parent, const char *name, uint32_t length, uint32_t index) {
  char open = name ? '{' : '[';
  if (!parent || *parent != open) return NULL;
  const char *p = spear_json_space(parent + 1);
  for (uint32_t i = 0; *p && *p != '}' && *p != ']'; i++) {
    int wanted = name ? spear_json_is(p, name, length) : i == index;
    if (name) {
      p = spear_json_end(p);
      p = p ? spear_json_space(p) : NULL;
      if (!p || *p != ':') return NULL;
      p = spear_json_space(p + 1);
    }
    if (wanted) return p;
    p = spear_json_end(p);
    if (!p) return NULL;
    p = spear_json_space(p);
    if (*p == ',') p = spear_json_space(p + 1);
  }
  return NULL;
}

static inline const char *spear_json_item(const char *array, uint32_t index) { return spear_json_child(array, NULL, 0, index); }

/* The value at a path such as "choices[0].message.content"; "" is the value itself. */
static inline const char *spear_json_at(const char *json, const char *path) {
  const char *value = json ? spear_json_space(json) : NULL;
  while (value && *path) {
    if (*path == '[') {
      char *after;
      uint32_t index = (uint32_t)strtoul(path + 1, &after, 10);
      if (*after != ']') return NULL;
      value = spear_json_item(value, index);
      path = after + 1;
    } else {
      if (*path == '.') path++;
      uint32_t length = (uint32_t)strcspn(path, ".[");
      value = spear_json_child(value, path, length, 0);
      path += length;
    }
  }
  return value;
}

/* The string at path, decoded, with a NUL after it. Its length; -SPEAR_ENOENT if it is not a string, -SPEAR_ENOSPC if it does not fit. */
static inline int32_t spear_json_text(const char *json, const char *path, char *out, uint32_t capacity) {
  const char *value = spear_json_at(json, path);
  if (capacity > 0) out[0] = 0;
  if (!value || *value != '"') return -SPEAR_ENOENT;
  uint32_t length = 0;
  char utf8[4];
  int n;
  for (value++; (n = spear_json_char(&value, utf8)) > 0; length += (uint32_t)n) {
    if (length + (uint32_t)n >= capacity) return -SPEAR_ENOSPC;
    memcpy(out + length, utf8, (size_t)n);
    out[length + (uint32_t)n] = 0;
  }
  return n < 0 ? -SPEAR_ENOENT : (int32_t)length;
}

/* The same in allocated memory; free() it. NULL if there is no string at path. */
static inline char *spear_json_text_alloc(const char *json, const char *path) {
  const char *value = spear_json_at(json, path);
  const char *end = value && *value == '"' ? spear_json_end(value) : NULL;
  char *text = end ? (char *)malloc((size_t)(end - value)) : NULL;
  if (text && spear_json_text(value, "", text, (uint32_t)(end - value)) < 0) {
    free(text);
    return NULL;
  }
  return text;
}

static inline double spear_json_number(const char *json, const char *path, double fallback) {
  const char *value = spear_json_at(json, path);
  return value && (*value == '-' || (*value >= '0' && *value <= '9')) ? strtod(value, NULL) : fallback;
}

/* The same as an integer, truncated towards zero and clamped to int64_t. Far smaller in the module than strtod. */
static inline int64_t spear_json_int(const char *json, const char *path, int64_t fallback) {
  const char *p = spear_json_at(json, path);
  if (!p || (*p != '-' && (*p < '0' || *p > '9'))) return fallback;
  int negative = *p == '-', fraction = 0;
  uint64_t digits = 0;
  long scale = 0;
  for (p += negative; (*p >= '0' && *p <= '9') || (*p == '.' && !fraction); p++) {
    if (*p == '.') {
      fraction = 1;
    } else if (digits < UINT64_MAX / 10) {
      digits = digits * 10 + (uint64_t)(*p - '0');
      scale -= fraction;
    } else {
      scale += !fraction;
    }
  }
  if (*p == 'e' || *p == 'E') scale += strtol(p + 1, NULL, 10);
  for (; scale < 0 && digits > 0; scale++) digits /= 10;
  for (; scale > 0 && digits > 0 && digits <= INT64_MAX; scale--) digits = digits > INT64_MAX / 10 ? UINT64_MAX : digits * 10;
  if (digits > INT64_MAX) return negative ? INT64_MIN : INT64_MAX;
  return negative ? -(int64_t)digits : (int64_t)digits;
}

static inline int spear_json_true(const char *json, const char *path) {
  const char *value = spear_json_at(json, path);
  return value && strncmp(value, "true", 4) == 0;
}

/*
 * The text of a message, such as "choices[0].message": its content, which may consist of parts, or else its refusal;
 * free() it. NULL if it has neither.
 */
static inline char *spear_message_text(const char *message) {
  const char *content = spear_json_at(message, "content"), *part;
  char *text = spear_json_text_alloc(content, "");
  size_t length = 0;
  for (uint32_t i = 0; (part = spear_json_item(content, i)) != NULL; i++) {
    char *piece = spear_json_text_alloc(part, "text");
    if (!piece) piece = spear_json_text_alloc(part, "refusal");
    size_t more = piece ? strlen(piece) : 0;
    char *longer = (char *)realloc(text, length + more + 1);
    if (longer) {
      text = longer;
      if (piece) memcpy(text + length, piece, more);
      length += more;
      text[length] = 0;
    }
    free(piece);
  }
  if (text && *text) return text;
  char *refusal = spear_json_text_alloc(message, "refusal");
  if (!refusal) return text;
  free(text);
  return refusal;
}

/*
 * The text of the model, including a refusal, or an error message: always a displayable text, free() it. *failed says
 * which of the two.
 */
static inline char *spear_answer(int32_t response, int *failed) {
  int32_t length;
  char *body = spear_recv_alloc(response, &length);
  char *text = spear_message_text(spear_json_at(body, "choices[0].message"));
  *failed = text == NULL;
  if (!text) text = spear_json_text_alloc(body, "error.message");
  if (!text && (text = (char *)malloc(64))) snprintf(text, 64, "no answer in the response (cchat_recv: %d)", (int)length);
  free(body);
  return text;
}

#ifdef SPEAR_COMPONENT
#include "spear-component.h"
#endif

#ifdef __cplusplus
}
#endif

#endif
