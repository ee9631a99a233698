import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scratch } from '../../e2e/spear-run.ts';
import { call, drop, i32Const, WasmModule } from '../../support/wasm-encoder.ts';

/** Calls that are under way at one time. */
export const WAVE = 50;
const [SERVER, WAVES, INDEX, LENGTH, CALLS, OUT, OUT_BYTES] = [16, 20, 24, 28, 2_048, 4_096, 8_192];
const i32 = 'i32' as const;
const [LOOP, IF, ELSE, END, EMPTY, BR_IF] = [0x03, 0x04, 0x05, 0x0b, 0x40, 0x0d];
const [ADD, MULTIPLY, LESS] = [0x6a, 0x6c, 0x48];

type Code = readonly number[];

const load = (address: Code): Code => [...address, 0x28, 2, 0];
const store = (address: Code, value: Code): Code => [...address, ...value, 0x36, 2, 0];
const variable = (address: number) => load(i32Const(address));
const set = (address: number, value: Code) => store(i32Const(address), value);
/** The cell that holds the descriptor of the call with the number in INDEX. */
const cell: Code = [...variable(INDEX), ...i32Const(4), MULTIPLY, ...i32Const(CALLS), ADD];

const repeat = (counter: number, times: number, body: Code): Code => [
  ...set(counter, i32Const(0)),
  ...[LOOP, EMPTY, ...body, ...set(counter, [...variable(counter), ...i32Const(1), ADD])],
  ...[...variable(counter), ...i32Const(times), LESS, BR_IF, 0, END],
];

/**
 * A guest that calls one tool so many times, a wave of calls after the other. Its exit code is 1 if it could not open
 * the server. Precondition: the number is a multiple of the wave, or below it.
 */
export function callingGuest(server: string, tool: string, args: string, calls: number): string {
  const module = new WasmModule();
  const open = module.importFunction('spear', 'mcp_open', [i32, i32], [i32]);
  const submit = module.importFunction('spear', 'mcp_submit', [i32, i32, i32, i32, i32], [i32]);
  const result = module.importFunction('spear', 'mcp_result', [i32, i32, i32], [i32]);
  const close = module.importFunction('spear', 'mcp_close', [i32], [i32]);
  const text = (at: number, value: string) => {
    module.data(at, value);
    return [...i32Const(at), ...i32Const(Buffer.byteLength(value))];
  };
  const wave = Math.min(WAVE, calls);
  const begin = [...variable(SERVER), ...text(256, tool), ...text(512, args), ...call(submit)];
  const take = [...load(cell), ...i32Const(OUT), ...i32Const(LENGTH), ...call(result), ...drop];
  const finish = [...set(LENGTH, i32Const(OUT_BYTES)), ...take, ...load(cell), ...call(close), ...drop];
  const oneWave = [...repeat(INDEX, wave, store(cell, begin)), ...repeat(INDEX, wave, finish)];
  const body = [
    ...set(SERVER, [...text(128, server), ...call(open)]),
    ...[...variable(SERVER), ...i32Const(0), LESS, IF, 0x7f, ...i32Const(1)],
    ...[ELSE, ...repeat(WAVES, calls / wave, oneWave), ...i32Const(0), END],
  ];
  module.memory({ min: 1 });
  module.export('memory', 'memory', 0);
  module.export('run', 'function', module.function([], [i32], body));
  const file = join(scratch, `calling-${calls}.wasm`);
  writeFileSync(file, module.encode());
  return file;
}
