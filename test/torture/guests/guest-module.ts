import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { type Call, calls, coreParams } from '../../../src/runtime/abi/calls.ts';

/** Where the texts that guests pass lie in their memory. */
const texts = {
  user: 'user',
  sum: '{"name":"sum"}',
  nonBlocking: '{"set":["O_NONBLOCK"],"clear":[]}',
  arenaPtr: '{"key":"tool_arena_ptr","value":65536}',
  arenaLength: '{"key":"tool_arena_len","value":4096}',
  tiny: 'tiny',
  echo: 'echo',
  hello: '{"message":"x"}',
} as const;
export type TextName = keyof typeof texts;

const TEXTS = 1024;
const TEXT_STEP = 64;
const textAt = (name: TextName) => TEXTS + Object.keys(texts).indexOf(name) * TEXT_STEP;

/** A word for lengths, and one that points at a range for WASI. */
export const LENGTH = 512;
export const VECTOR = 520;
/** Room for what is large: 4 MiB of letters, which lie there if the guest asks for them. */
export const BIG = 1024 * 1024;
export const BIG_BYTES = 4 * 1024 * 1024;
const PAGES = 128;

export const number = (value: number) => `(i32.const ${value})`;
/** A text as a pointer and a length. */
export const text = (name: TextName) => `${number(textAt(name))} ${number(texts[name].length)}`;
export const call = (name: string, ...args: string[]) => `(call $${name} ${args.join(' ')})`;
export const drop = (value: string) => `(drop ${value})`;
export const setLength = (value: number) => `(i32.store ${number(LENGTH)} ${number(value)})`;
export const forever = (...body: string[]) => `(loop $again ${body.join(' ')} (br $again))`;
/** Again and again, until the value is an errno. */
export const untilErrno = (value: string) => `(loop $more (br_if $more (i32.ge_s ${value} (i32.const 0))))`;
export const times = (count: number, ...body: string[]) =>
  `(local.set $i ${number(0)}) (loop $times ${body.join(' ')}
    (br_if $times (i32.lt_u (local.tee $i (i32.add (local.get $i) ${number(1)})) ${number(count)})))`;
/** An argument of a `*_ctl` call that is taken in. */
export const control = (name: string, fd: string, command: number, argument: TextName) =>
  `(i32.store ${number(LENGTH)} ${number(texts[argument].length)})
   ${drop(call(name, fd, number(command), number(textAt(argument)), number(LENGTH)))}`;

export const session = '(local.set $s (call $cchat_create))';
export const say = (content = text('hello')) => drop(call('cchat_write_msg', '(local.get $s)', text('user'), content));
/** A session with a tool whose callback is the function at the place 1 of the table, and room for its arguments. */
export const sessionWithTool = `${session}
  ${control('cchat_ctl', '(local.get $s)', 1, 'arenaPtr')} ${control('cchat_ctl', '(local.get $s)', 1, 'arenaLength')}
  ${drop(call('cchat_write_fn', '(local.get $s)', number(1), text('sum')))} ${say()}`;
export const fillBig = `(memory.fill ${number(BIG)} ${number(120)} ${number(BIG_BYTES)})`;

export interface GuestText {
  /** What `run` executes. */
  readonly run: string;
  /** The body of the tool; its parameters are `$args $length $out $outLength`. @default answers nothing */
  readonly tool?: string;
  /** What else stands in the module. */
  readonly more?: string;
}

const wasi = `
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))`;

const imports = (calls as readonly Call[]).map((row) => {
  const params = coreParams(row).map(() => 'i32');
  const result = row.result === 'none' ? '' : `(result ${row.result})`;
  return `(import "spear" "${row.name}" (func $${row.name} (param ${params.join(' ')}) ${result}))`;
});

const data = Object.keys(texts).map(
  (name) =>
    `(data ${number(textAt(name as TextName))} ${JSON.stringify(texts[name as TextName]).replaceAll('\\"', '\\22')})`,
);

/** A core module that imports everything there is. */
export function guestModule({ run, tool = number(0), more = '' }: GuestText): Promise<Uint8Array> {
  const locals = '(local $s i32) (local $r i32) (local $i i32)';
  return parse(`(module ${wasi} ${imports.join('\n')}
    (memory (export "memory") ${PAGES})
    (table $t (export "__indirect_function_table") 4 funcref)
    (elem (i32.const 1) $tool)
    ${data.join('\n')} ${more}
    (func $tool (param $args i32) (param $length i32) (param $out i32) (param $outLength i32) (result i32)
      ${locals} ${tool})
    (func $run (export "run") (result i32) ${locals} ${run} (i32.const 0)))`);
}
