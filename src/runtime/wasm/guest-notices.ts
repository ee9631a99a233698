import { NO_FUNCTION_TABLE, WASI_MODULE } from '../abi/guest-module.ts';
import { PREEMPTION_MODULE } from '../port/preemption.ts';
import type { Prepared } from './prepare.ts';

/** What a guest imports, in the names of its form: `spear.cchat_send`, or `spear:host/cchat@1.0.0`. */
export function importedNames(prepared: Prepared): string[] {
  if (prepared.kind === 'component') return [...prepared.imports];
  const imports = WebAssembly.Module.imports(prepared.module);
  const own = prepared.turns === null ? imports : imports.filter(({ module }) => module !== PREEMPTION_MODULE);
  return own.map(({ module, name }) => `${module}.${name}`);
}

/**
 * Whether a guest has tools that nobody can run: it registers them, the host finds no table to call them through, and the
 * guest cannot answer calls that are handed back to it either, as a guest without a table may.
 */
export function toolsOutOfReach(prepared: Prepared): boolean {
  if (prepared.kind === 'component') return false;
  const imports = importedNames(prepared);
  return (
    imports.includes('spear.cchat_write_fn') &&
    !imports.includes('spear.cchat_write_tool_result') &&
    !WebAssembly.Module.exports(prepared.module).some(({ kind }) => kind === 'table')
  );
}

const readsArguments = (name: string) =>
  name === `${WASI_MODULE}.args_get` ||
  name === `${WASI_MODULE}.args_sizes_get` ||
  name.startsWith('wasi:cli/environment@');

interface Noticed {
  readonly readsArguments: boolean;
  readonly toolsOutOfReach: boolean;
}

/** Looked at once for all guests of a module: the engine makes its lists anew each time. */
const noticed = new WeakMap<Prepared, Noticed>();

function notice(prepared: Prepared): Noticed {
  const known = noticed.get(prepared) ?? {
    readsArguments: importedNames(prepared).some(readsArguments),
    toolsOutOfReach: toolsOutOfReach(prepared),
  };
  noticed.set(prepared, known);
  return known;
}

/** What whoever runs a guest should know before it starts. `args`: its name first. */
export function guestNotices(prepared: Prepared, args: readonly string[]): string[] {
  const given = args.length - 1;
  const found = notice(prepared);
  const unread = given > 0 && !found.readsArguments;
  return [
    ...(found.toolsOutOfReach ? [`the tools of this guest will fail: ${NO_FUNCTION_TABLE}`] : []),
    ...(unread
      ? [
          `the guest cannot read its ${given === 1 ? 'argument' : `${given} arguments`}: the module imports neither args_get of WASI nor wasi:cli/environment`,
        ]
      : []),
  ];
}
