import { call, i32Const, localGet, type ValueType, WasmModule } from '../../test/support/wasm-encoder.ts';
import { branchIf, countDown, END, LOOP } from './instructions.ts';
import { FLAGS, LONG_TEXT, PARAM, SENTENCE } from './texts.ts';

const VERSION = '1.0.0';
const RETURN_AREA = 16;
const SCRATCH = 32_768;
const FIRST_TEXT = 1_024;
const I32_LOAD8_U = [0x2d, 0x00, 0x00];

/** A call of a loop: which function, and its arguments between the descriptor and the return area. */
interface Loop {
  readonly from: 'cchat' | 'poll';
  readonly name: string;
  readonly args: (text: (text: string) => [number, number]) => number[];
}

/** The hostcalls that a component is measured with, by the names of its exports. */
export const componentLoops = {
  'write-short': { from: 'cchat', name: 'cchat-write-msg', args: (text) => [...text('user'), ...text(SENTENCE)] },
  'write-long': { from: 'cchat', name: 'cchat-write-msg', args: (text) => [...text('user'), ...text(LONG_TEXT)] },
  'set-param': { from: 'cchat', name: 'cchat-ctl', args: (text) => [1, ...text(PARAM)] },
  'get-metrics': { from: 'cchat', name: 'cchat-ctl', args: () => [2, FIRST_TEXT, 0] },
  recv: { from: 'cchat', name: 'cchat-recv', args: () => [] },
  'set-flags': { from: 'poll', name: 'spear-fd-ctl', args: (text) => [1, ...text(FLAGS)] },
  'get-status': { from: 'poll', name: 'spear-fd-ctl', args: () => [4, FIRST_TEXT, 0] },
} as const satisfies Record<string, Loop>;

export type ComponentLoop = keyof typeof componentLoops;

/** `export(times, fd)` gives the discriminant of the last result: 0 for ok. */
export const loopWorld = `
world bench {
    import cchat;
    import poll;
${Object.keys(componentLoops)
  .map((name) => `    export ${name}: func(times: u32, fd: s32) -> s32;`)
  .join('\n')}
}`;

/** The core module of the component, written as a compiler would lower it. */
export function loopingCore(): Uint8Array {
  const module = new WasmModule();
  const loops: [string, Loop][] = Object.entries(componentLoops);
  const imports = new Map<string, number>();
  let nextText = FIRST_TEXT;
  const texts: [number, string][] = [];
  const text = (content: string): [number, number] => {
    const ptr = nextText;
    texts.push([ptr, content]);
    nextText += Buffer.byteLength(content);
    if (nextText > SCRATCH) throw new Error('the texts of the component do not fit');
    return [ptr, Buffer.byteLength(content)];
  };
  const bodies = loops.map(([name, { from, name: called, args }]) => {
    const given = args(text);
    const params: ValueType[] = Array.from({ length: given.length + 2 }, () => 'i32');
    const index = imports.get(called) ?? module.importFunction(`spear:host/${from}@${VERSION}`, called, params);
    imports.set(called, index);
    const calling = [...localGet(1), ...[...given, RETURN_AREA].flatMap(i32Const), ...call(index)];
    const result = [...i32Const(RETURN_AREA), ...I32_LOAD8_U];
    return { name, body: [...LOOP, ...calling, ...countDown(0), ...branchIf(0), ...END, ...result] };
  });
  for (const { name, body } of bodies) module.export(name, 'function', module.function(['i32', 'i32'], ['i32'], body));
  // What a call gives back is used and let go at once, so one place is enough.
  module.export('cabi_realloc', 'function', module.function(['i32', 'i32', 'i32', 'i32'], ['i32'], i32Const(SCRATCH)));
  module.export('memory', 'memory', module.memory({ min: 4 }));
  for (const [ptr, content] of texts) module.data(ptr, content);
  return module.encode();
}
