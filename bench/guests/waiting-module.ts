import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';

const text = (body: string) =>
  parse(`(module (import "spear" "sleep_ms" (func $sleep (param i32)))
    (import "spear" "time_now_ms" (func $now (result i64)))
    (memory (export "memory") 1)
    (func (export "run") (result i32) (local $i i32) ${body}))`);

/** A guest that waits for longer than anybody looks. */
export const waitingModule = () => text('(call $sleep (i32.const 100000000)) (i32.const 0)');
/** One that ends as soon as it has begun. */
export const endingModule = () => text('(i32.const 0)');
export const spinningModule = () => text('(loop $l (br $l)) (i32.const 0)');
/** One that makes a local call so often, and nothing else. */
export const callingModule = (times: number) =>
  text(`(loop $l (drop (call $now))
    (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const ${times})))) (i32.const 0)`);
/** One that adds up its memory, so often for each of some pieces, and says when it has a piece: a loop of a few instructions. */
export const summingModule = (pieces: number, times: number) =>
  parse(`(module (import "spear" "log" (func $log (param i32 i32 i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "a piece")
    (func (export "run") (result i32) (local $piece i32) (local $i i32) (local $at i32) (local $sum i32)
      (loop $more
        (local.set $i (i32.const ${times}))
        (loop $again
          (local.set $at (i32.const 65532))
          (loop $l
            (local.set $sum (i32.add (local.get $sum) (i32.load (local.get $at))))
            (br_if $l (local.tee $at (i32.sub (local.get $at) (i32.const 4)))))
          (br_if $again (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
        (call $log (i32.const 2) (i32.const 0) (i32.const 7))
        (br_if $more (i32.lt_s (local.tee $piece (i32.add (local.get $piece) (i32.const 1))) (i32.const ${pieces}))))
      (i32.eq (local.get $sum) (i32.const 1))))`);
