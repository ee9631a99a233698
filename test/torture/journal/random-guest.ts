import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import fc from 'fast-check';
import { type Call, calls, coreParams } from '../../../src/runtime/abi/calls.ts';
import {
  type DescriptorKind,
  MEMORY_PAGES,
  type RandomCall,
  randomCall,
} from '../../runtime/guest/core/random-calls.ts';

const CALLS = 150;
/** Where the last descriptor of each kind is kept, below everything that random calls use. */
const slots: Readonly<Record<DescriptorKind, number>> = { session: 0, response: 4, epoll: 8, server: 12, call: 16 };
const givers: Readonly<Record<string, DescriptorKind>> = {
  cchat_create: 'session',
  cchat_send: 'response',
  spear_epoll_create: 'epoll',
  mcp_open: 'server',
  mcp_call_tool: 'call',
};
const rows: readonly Call[] = calls;
const number = (value: number) => `(i32.const ${value | 0})`;

/** A module that makes the calls of the property tests, the same for the same seed; its exit code tells what they came to. */
export function randomGuest(seed: number): Promise<Uint8Array> {
  const data: string[] = [];
  const body = fc.sample(randomCall, { seed, numRuns: CALLS }).map((call) => instructions(call, data));
  const imports = rows.map(({ name, result, ...row }) => {
    const params = coreParams({ name, result, ...row }).map(() => 'i32');
    return `(import "spear" "${name}" (func $${name} (param ${params.join(' ')}) ${result === 'none' ? '' : `(result ${result})`}))`;
  });
  return parse(`(module ${imports.join('\n')}
    (memory (export "memory") ${MEMORY_PAGES})
    ${data.join('\n')}
    (func (export "run") (result i32) (local $r i32) (local $sum i32)
      ${body.join('\n')}
      (i32.and (i32.xor (local.get $sum) (i32.shr_u (local.get $sum) (i32.const 16))) (i32.const 63))))`);
}

function instructions({ name, args }: RandomCall, data: string[]): string {
  const before: string[] = [];
  const place = (ptr: number, text: Uint8Array | null) => {
    if (text === null || text.byteLength === 0 || ptr + text.byteLength > MEMORY_PAGES * 65_536) return;
    const bytes = [...text].map((byte) => `\\${byte.toString(16).padStart(2, '0')}`).join('');
    data.push(`(data $d${data.length} "${bytes}")`);
    before.push(`(memory.init $d${data.length - 1} ${number(ptr)} (i32.const 0) ${number(text.byteLength)})`);
  };
  const passed = args.flatMap((argument): string[] => {
    if ('recent' in argument) return [`(i32.load ${number(slots[argument.kind])})`];
    if ('fd' in argument) return [number(argument.fd)];
    // A wait without an end would be ended by the deadline of the run, at no place in particular.
    if ('i32' in argument)
      return [number(/wait|sleep/.test(name) ? Math.max(0, Math.min(argument.i32, 1)) : argument.i32)];
    if ('range' in argument) {
      place(argument.range.ptr, argument.range.text);
      return [number(argument.range.ptr), number(argument.range.length)];
    }
    const { ptr, lengthPtr, capacity, text } = argument.buffer;
    place(ptr, text);
    if (capacity !== null && lengthPtr + 4 <= MEMORY_PAGES * 65_536) {
      before.push(`(i32.store ${number(lengthPtr)} ${number(capacity)})`);
    }
    return [number(ptr), number(lengthPtr)];
  });
  const call = `(call $${name} ${passed.join(' ')})`;
  const result = rows.find((row) => row.name === name)?.result;
  if (result === 'none') return [...before, call].join(' ');
  const kind = givers[name];
  const keep =
    kind === undefined
      ? ''
      : `(if (i32.gt_s (local.get $r) (i32.const 0)) (then (i32.store ${number(slots[kind])} (local.get $r))))`;
  return `${before.join(' ')} (local.set $r ${result === 'i64' ? `(i32.wrap_i64 ${call})` : call}) ${keep}
    (local.set $sum (i32.add (i32.rotl (local.get $sum) (i32.const 5)) (local.get $r)))`;
}
