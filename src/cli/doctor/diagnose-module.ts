import { ModuleError } from '../../runtime/abi/guest-module.ts';
import { importedNames, toolsOutOfReach } from '../../runtime/wasm/guest-notices.ts';
import { type Prepared, type PrepareOptions, prepare } from '../../runtime/wasm/prepare.ts';
import { bad, type Finding, ok, skipped } from './finding.ts';
import { moduleRemedies } from './module-remedy.ts';

/** Imports that give a guest access to tools, in the names of both bindings. */
const CHATS = /\bcchat[_-]send$/;
const CALLS_MCP = /\bmcp[_-](?:call[_-]tool|submit)$/;
const SHOWN_IMPORTS = 12;

/**
 * Checks the module as a run would. `bytes` may reject with a ModuleError; `describe` returns the kind of module. With
 * `needsTools`, a guest that cannot use tools is a problem.
 */
export async function diagnoseModule(
  file: string,
  bytes: Promise<Uint8Array>,
  options: PrepareOptions & { readonly needsTools: boolean; readonly describe: (prepared: Prepared) => string },
): Promise<Finding> {
  try {
    const binary = await bytes;
    const prepared = await prepare(binary, options);
    const imports = importedNames(prepared);
    const children = [
      skipped('imports', `imports ${imports.length}: ${cut(imports) || 'nothing'}`),
      ...guestTools(prepared),
      ...toolUse(prepared, imports, options.needsTools),
    ];
    return ok('module', `${file}: ${options.describe(prepared)}, ${binary.byteLength} bytes`, children);
  } catch (error) {
    if (options.signal?.aborted) {
      const fix = 'give it more time with --timeout-ms, or make the module smaller';
      return bad('module', `${file}: the module could not be prepared in time`, { cause: 'timeout', fix });
    }
    if (!(error instanceof ModuleError)) throw error;
    const fix = error.problem
      ? moduleRemedies[error.problem]
      : 'rebuild the module: guest-examples/ has a guide for each language';
    return bad('module', `${file}: ${error.message}`, { cause: error.problem ?? 'module', fix });
  }
}

function guestTools(prepared: Prepared): Finding[] {
  if (!toolsOutOfReach(prepared)) return [];
  const fix = 'link it with -Wl,--export-table (C, C++) or exportTable (AssemblyScript), or answer handed-back calls';
  const text = 'the guest registers tools, but exports no function table, so the host cannot call them';
  return [bad('guest_tools', text, { cause: 'no_function_table', fix })];
}

function toolUse(prepared: Prepared, imports: readonly string[], needsTools: boolean): Finding[] {
  if (!needsTools) return [];
  // A component imports whole interfaces, so it may use any call of them.
  const uses = (call: RegExp, family: string) =>
    imports.some((name) => (prepared.kind === 'component' ? name.startsWith(`spear:host/${family}`) : call.test(name)));
  if (uses(CHATS, 'cchat')) {
    const text = 'the model sees tools only in sends with AUTO_TOOL_CALL or HAND_BACK';
    const fix = 'if the model never calls a tool, add SPEAR_SEND_AUTO_TOOL_CALL (2) to the flags of cchat_send';
    return [skipped('tool_use', text, { fix })];
  }
  if (uses(CALLS_MCP, 'mcp')) return [skipped('tool_use', 'the guest calls MCP tools directly, without a model')];
  const fix = 'send with cchat_send and AUTO_TOOL_CALL, or call tools with mcp_open and mcp_call_tool';
  return [
    bad('tool_use', 'the guest neither chats nor calls MCP, so the tools are never used', {
      cause: 'no_tool_use',
      fix,
    }),
  ];
}

function cut(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_IMPORTS).join(', ');
  return names.length > SHOWN_IMPORTS ? `${shown}, …` : shown;
}
