import { NO_FUNCTION_TABLE, WASI_MODULE } from '../abi/guest-module.ts';
import { PREEMPTION_MODULE } from '../port/preemption.ts';
import type { Prepared } from './prepare.ts';

/** Names of a guest's imports: `spear.cchat_send`, or `spear:host/cchat@1.0.0`. */
export function importedNames(prepared: Prepared): string[] {
  if (prepared.kind === 'component') return [...prepared.imports];
  const imports = WebAssembly.Module.imports(prepared.module);
  const own = prepared.turns === null ? imports : imports.filter(({ module }) => module !== PREEMPTION_MODULE);
  return own.map(({ module, name }) => `${module}.${name}`);
}

/**
 * Whether a guest registers tools that cannot run: it exports no function table to call them through, and it does not
 * import the call to answer handed-back tool calls.
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

interface NoticeFacts {
  readonly readsArguments: boolean;
  readonly toolsOutOfReach: boolean;
}

/** Cached per module: the engine creates the lists of imports and exports on every request. */
const noticeFacts = new WeakMap<Prepared, NoticeFacts>();

function notice(prepared: Prepared): NoticeFacts {
  const known = noticeFacts.get(prepared) ?? {
    readsArguments: importedNames(prepared).some(readsArguments),
    toolsOutOfReach: toolsOutOfReach(prepared),
  };
  noticeFacts.set(prepared, known);
  return known;
}

/** Notices for the user before a guest starts. `args[0]` is the guest's name. */
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
