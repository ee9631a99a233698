import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { transpileBytes } from '@bytecodealliance/jco-transpile';
import { componentEmbed, componentNew } from '@bytecodealliance/jco-transpile/wasm-tools';
import { calls } from '../../src/runtime/abi/calls.ts';
import { hostInterface, withoutVersion } from '../../src/runtime/guest/component/calls.ts';
import { instantiateInFastLane } from '../../src/runtime/guest/component/fast-lane.ts';
import { evaluateGlue, glueInterface, type Instantiate } from '../../src/runtime/guest/component/glue.ts';
import { hostcalls } from '../../src/runtime/guest/hostcalls/all.ts';
import type { GuestState } from '../../src/runtime/guest/hostcalls/guest-state.ts';
import { transpile } from '../../src/runtime/wasm/component/transpile.ts';
import { type ComponentLoop, componentLoops, loopingCore, loopWorld } from './component-loops.ts';

const witFile = fileURLToPath(new URL('../../wit/spear.wit', import.meta.url));

export type ComponentLoops = Readonly<Record<ComponentLoop, (times: number, fd: number) => Promise<number>>>;

const loopNames = Object.keys(componentLoops) as ComponentLoop[];
const TRANSPILE_MS = 60_000;

/** A component that makes the hostcalls of the bench. */
export function loopingComponent(): Promise<Uint8Array> {
  const witSource = `${readFileSync(witFile, 'utf8')}\n${loopWorld}`;
  return componentEmbed({ binary: loopingCore(), witSource, world: 'bench' }).then((core) => componentNew(core));
}

/** As spear-run links it: our functions in the place of jco's. */
export async function instantiateOurs(component: Uint8Array, guest: GuestState): Promise<ComponentLoops> {
  const request = { bytes: component, asyncImports: [], asyncExports: loopNames };
  const { glue, coreModules } = await transpile(request, TRANSPILE_MS, new AbortController().signal);
  const counts = new Float64Array(calls.length);
  const lane = { table: hostcalls, guest, counts };
  return enter(evaluateGlue(glue), coreModules, guest, counts, (module, imports) =>
    instantiateInFastLane(lane, module, imports),
  );
}

/** As jco generates it by itself, with the same hostcalls behind it. */
export async function instantiatePlain(component: Uint8Array, guest: GuestState): Promise<ComponentLoops> {
  // The exports are entered as the entry of a guest is, so that what they call runs on the same kind of stack.
  const options = { name: 'bench', instantiation: 'async', asyncMode: 'jspi', asyncExports: loopNames } as const;
  const { files } = await transpileBytes(component, options as unknown as Parameters<typeof transpileBytes>[1]);
  const found = Object.entries(files);
  const glue = found.find(([name]) => name.endsWith('.js'))?.[1];
  if (!glue) throw new Error('jco generated no JavaScript');
  const modules = new Map(found.filter(([name]) => name.endsWith('.wasm')));
  const folder = mkdtempSync(join(tmpdir(), 'spear-bench-'));
  try {
    const file = join(folder, 'glue.mjs');
    writeFileSync(file, glue);
    const { instantiate } = (await import(pathToFileURL(file).href)) as { instantiate: Instantiate };
    const counts = new Float64Array(calls.length);
    return await enter(
      instantiate,
      modules,
      guest,
      counts,
      (module, imports) => new WebAssembly.Instance(module, imports),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function enter(
  instantiate: Instantiate,
  modules: ReadonlyMap<string, Uint8Array>,
  guest: GuestState,
  counts: Float64Array,
  instantiateCore: Parameters<Instantiate>[2],
): Promise<ComponentLoops> {
  const imports: Record<string, unknown> = {};
  for (const name of ['cchat', 'poll', 'types'].map((each) => `spear:host/${each}@1.0.0`)) {
    const found = glueInterface(hostcalls, guest, counts, hostInterface(name) ?? '');
    imports[name] = found;
    imports[withoutVersion(name)] = found;
  }
  const compiled = new Map([...modules].map(([name, bytes]) => [name, new WebAssembly.Module(bytes)]));
  const exports = await instantiate((name) => compiled.get(name) as WebAssembly.Module, imports, instantiateCore);
  const camel = (name: string) => name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(loopNames.map((name) => [name, exports[camel(name)]])) as unknown as ComponentLoops;
}
