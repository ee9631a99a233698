import { type Call, calls } from '../../abi/calls.ts';
import { witFunctions, witPackage } from '../../abi/wit.ts';

const modes = new Map(calls.map((row: Call) => [row.name, row.mode]));

const HOST = `${witPackage.namespace}:${witPackage.name}/`;

/** The functions of WASI that may wait. Output is written at once, so its blocking forms do not. */
const waitingInWasi: readonly (readonly [interfaceName: string, functions: readonly string[]])[] = [
  ['wasi:io/poll', ['poll', '[method]pollable.block']],
  [
    'wasi:io/streams',
    [
      '[method]input-stream.blocking-read',
      '[method]input-stream.blocking-skip',
      '[method]output-stream.blocking-splice',
    ],
  ],
];

/** What a component waits in while it is suspended, by the interface without its version: one list for both sides. */
const waitingFunctions: ReadonlyMap<string, ReadonlySet<string>> = waiting();

/**
 * The imports that jco has to make suspending: `spear:host/cchat@1.0.0#cchat-send`, with the versions that the
 * component asks for.
 */
export function asyncImports(imports: readonly string[]): string[] {
  return imports.flatMap((name) =>
    [...(waitingFunctions.get(withoutVersion(name)) ?? [])].map((fn) => `${name}#${fn}`),
  );
}

const withoutVersion = (name: string) => name.replace(/@.*$/, '');

function waiting(): Map<string, Set<string>> {
  const found = new Map(waitingInWasi.map(([name, functions]) => [name, new Set(functions)]));
  for (const { call, interface: own, name } of witFunctions) {
    if (modes.get(call) !== 'suspending') continue;
    const key = HOST + own;
    found.set(key, (found.get(key) ?? new Set()).add(name));
  }
  return found;
}
