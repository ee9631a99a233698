;; catch-all.wasm sleep|wait|send|exit: catches whatever the host throws into a call and calls again, for ever.
;; exit: calls proc_exit(3), which no catch_all may stop. It must end all the same: a trap cannot be caught.
(module
  (import "spear" "sleep_ms" (func $sleep_ms (param i32)))
  (import "spear" "spear_epoll_create" (func $epoll_create (result i32)))
  (import "spear" "spear_epoll_wait" (func $epoll_wait (param i32 i32 i32 i32) (result i32)))
  (import "spear" "cchat_create" (func $chat_create (result i32)))
  (import "spear" "cchat_send" (func $chat_send (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "before the loop\n")
  (data (i32.const 1056) "caught something\n")

  (func $say (param $text i32) (param $length i32)
    (i32.store (i32.const 0) (local.get $text))
    (i32.store (i32.const 4) (local.get $length))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))

  ;; The first two letters of the first argument, low byte first.
  (func $mode (result i32)
    (drop (call $args_get (i32.const 2048) (i32.const 4096)))
    (i32.load16_u (i32.load (i32.const 2052))))

  (func $call_the_host (param $mode i32) (param $fd i32)
    (if (i32.eq (local.get $mode) (i32.const 0x6c73)) ;; "sl"
      (then (call $sleep_ms (i32.const 600000))))
    (if (i32.eq (local.get $mode) (i32.const 0x6177)) ;; "wa"
      (then
        (i32.store (i32.const 16) (i32.const 64))
        (drop (call $epoll_wait (local.get $fd) (i32.const 64) (i32.const 16) (i32.const -1)))))
    (if (i32.eq (local.get $mode) (i32.const 0x6573)) ;; "se"
      (then (drop (call $chat_send (local.get $fd) (i32.const 0)))))
    (if (i32.eq (local.get $mode) (i32.const 0x7865)) ;; "ex"
      (then (call $proc_exit (i32.const 3)))))

  (func (export "_start")
    (local $mode i32)
    (local $fd i32)
    (local.set $mode (call $mode))
    (local.set $fd
      (if (result i32) (i32.eq (local.get $mode) (i32.const 0x6573))
        (then (call $chat_create))
        (else (call $epoll_create))))
    (call $say (i32.const 1024) (i32.const 16))
    (loop $again
      (try
        (do (call $call_the_host (local.get $mode) (local.get $fd)))
        (catch_all (call $say (i32.const 1056) (i32.const 17))))
      (br $again))))
