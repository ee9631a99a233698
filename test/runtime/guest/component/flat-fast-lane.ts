import { parse } from '@bytecodealliance/jco-transpile/wasm-tools';
import { interfaceName, type WitFunction, witFunctions } from '../../../../src/runtime/abi/wit.ts';
import { instantiateInFastLane } from '../../../../src/runtime/guest/component/fast-lane.ts';
import { hostcalls } from '../../../../src/runtime/guest/hostcalls/all.ts';
import type { GuestState } from '../../../../src/runtime/guest/hostcalls/guest-state.ts';
import { newCounters } from '../../../../src/runtime/host/guest-counters.ts';
import { flatParams, flatResult, hasReturnArea, importText, resultText } from '../../../support/guest-text.ts';
import type { FlatGuest, FlatLane } from './checked-flat-calls.ts';
import { FLAT_PAGES, HEAP, type RandomFlatCall } from './random-flat-calls.ts';

/** Passes the parameters of each call on as they are. */
export const passingOn: readonly string[] = witFunctions.map(passOn);

function passOn(fn: WitFunction): string {
  const params = [...flatParams(fn), ...(hasReturnArea(fn) ? ['i32'] : [])];
  const given = params.map((_, index) => `(local.get ${index})`).join(' ');
  const result = hasReturnArea(fn) ? '' : resultText(flatResult(fn));
  return `(func (export "${fn.name}") (param ${params.join(' ')}) ${result} (call $${fn.name} ${given}))`;
}

/** Memory and allocator are the test's, which sees what is done with them. */
export async function flatFastLane(): Promise<FlatLane> {
  const text = `(module
    (import "env" "memory" (memory ${FLAT_PAGES}))
    (import "env" "cabi_realloc" (func (param i32 i32 i32 i32) (result i32)))
    ${witFunctions.map(importText).join('\n')}
    ${passingOn.join('\n')})`;
  const module = new WebAssembly.Module(await parse(text));
  const isTrap = (error: unknown) => error instanceof WebAssembly.RuntimeError;
  return { open: (state) => open(module, state), survivesTraps: true, isTrap };
}

function open(module: WebAssembly.Module, state: GuestState): FlatGuest {
  const memory = new WebAssembly.Memory({ initial: FLAT_PAGES });
  let answer: RandomFlatCall['answer'] = 'fits';
  let taken: [from: number, to: number][] = [];
  const allocate = (_old: number, _size: number, _align: number, size: number): number => {
    const ptr = answer === 'fits' ? HEAP : answer;
    taken.push([ptr >>> 0, (ptr >>> 0) + size]);
    return ptr;
  };
  const { exports } = instantiateInFastLane({ table: hostcalls, guest: state, counts: newCounters(1) }, module, {
    env: { memory, cabi_realloc: allocate },
    ...stubs(module),
  });
  return {
    memory,
    answer: (next) => {
      answer = next;
      taken = [];
    },
    taken: () => taken,
    call: (name, params) => WebAssembly.promising(exports[name] as WebAssembly.GuestFunction)(...params),
  };
}

/** What jco would have passed: nothing of it may be reached. */
function stubs(module: WebAssembly.Module): WebAssembly.Imports {
  const reached = () => {
    throw new Error('the guest reached the glue');
  };
  const names = new Set(witFunctions.map((fn) => interfaceName(fn.interface)));
  const wanted = WebAssembly.Module.imports(module);
  return Object.fromEntries(
    [...names].map((from) => [
      from,
      Object.fromEntries(wanted.filter((one) => one.module === from).map(({ name }) => [name, reached])),
    ]),
  );
}
