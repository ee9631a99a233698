import { interfaceName, type WitFunction, witFunctions } from '../../../../src/runtime/abi/wit.ts';
import { hostInterface, withoutVersion } from '../../../../src/runtime/guest/component/calls.ts';
import { evaluateGlue, glueInterface, type Instantiate } from '../../../../src/runtime/guest/component/glue.ts';
import { hostcalls } from '../../../../src/runtime/guest/hostcalls/all.ts';
import type { GuestState } from '../../../../src/runtime/guest/hostcalls/guest-state.ts';
import { newCounters } from '../../../../src/runtime/host/guest-counters.ts';
import { asyncImports } from '../../../../src/runtime/wasm/component/import-check.ts';
import { transpile } from '../../../../src/runtime/wasm/component/transpile.ts';
import { componentOf, flatParams, flatResult, guestModule, hasReturnArea } from '../../../support/guest-text.ts';
import type { FlatGuest, FlatLane } from './checked-flat-calls.ts';
import { passingOn } from './flat-fast-lane.ts';
import { FLAT_PAGES, HEAP } from './random-flat-calls.ts';

const GENEROUS_MS = 120_000;
const imports = [...new Set(witFunctions.map((fn) => interfaceName(fn.interface)))];

/** An allocator with a configured answer; remembers its last allocation. */
const ALLOCATOR = `
  (global (export "answer") (mut i32) (i32.const ${HEAP}))
  (global (export "taken-at") (mut i32) (i32.const 0))
  (global (export "taken-bytes") (mut i32) (i32.const 0))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (global.set 1 (global.get 0))
    (global.set 2 (local.get 3))
    (global.get 0))`;

interface Compiled {
  readonly instantiate: Instantiate;
  readonly coreModule: (name: string) => WebAssembly.Module;
}

/** The same calls through what jco generates: numbers in, and into the lowered imports as they are. */
export async function flatGlueLane(): Promise<FlatLane> {
  const core = guestModule({
    calls: witFunctions.map(({ call }) => call),
    body: passingOn.join('\n'),
    pages: FLAT_PAGES,
    allocator: ALLOCATOR,
  });
  const world = `include imports; ${witFunctions.map(exported).join('\n')}`;
  const { glue, coreModules } = await transpile(
    {
      bytes: await componentOf(core, world),
      asyncImports: asyncImports(imports),
      asyncExports: witFunctions.map(({ name }) => name),
    },
    GENEROUS_MS,
    new AbortController().signal,
  );
  const modules = new Map([...coreModules].map(([name, bytes]) => [name, new WebAssembly.Module(bytes)]));
  const compiled: Compiled = {
    instantiate: evaluateGlue(glue),
    coreModule: (name) => modules.get(name) as WebAssembly.Module,
  };
  // What jco writes leaves it to the views of a memory to refuse an address.
  const isTrap = (error: unknown) => error instanceof RangeError || error instanceof WebAssembly.RuntimeError;
  return { open: (state) => open(compiled, state), survivesTraps: false, isTrap };
}

function exported(fn: WitFunction): string {
  const params = [...flatParams(fn), ...(hasReturnArea(fn) ? ['i32'] : [])].map((_, index) => `p${index}: s32`);
  const result = hasReturnArea(fn) ? '' : { i32: '-> s32', i64: '-> s64' }[flatResult(fn)];
  return `export ${fn.name}: func(${params.join(', ')}) ${result ?? ''};`;
}

function open({ instantiate, coreModule }: Compiled, state: GuestState): FlatGuest {
  const counts = newCounters(1);
  const served = Object.fromEntries(
    imports.map((name) => [withoutVersion(name), glueInterface(hostcalls, state, counts, hostInterface(name) ?? '')]),
  );
  let core: WebAssembly.Instance['exports'] = {};
  const exports = instantiate(coreModule, served, (module, given) => {
    const instance = new WebAssembly.Instance(module, given);
    if (instance.exports.memory) core = instance.exports;
    return instance;
  });
  if (exports instanceof Promise) throw new Error('the component was expected to be there at once');
  const word = (name: string) => core[name] as { value: number };
  return {
    memory: core.memory as WebAssembly.Memory,
    answer: (next) => {
      word('answer').value = next === 'fits' ? HEAP : next;
      word('taken-bytes').value = 0;
    },
    taken: () => {
      const from = word('taken-at').value >>> 0;
      return [[from, from + (word('taken-bytes').value >>> 0)]];
    },
    call: (name, params) => (exports[camelCase(name)] as (...given: number[]) => Promise<unknown>)(...params),
  };
}

const camelCase = (name: string): string => name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
