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
