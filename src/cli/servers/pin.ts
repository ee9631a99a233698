import type { JsonObject } from '../../base/json.ts';
import { visible } from '../../base/visible-text.ts';
import { definitionChanges } from '../../mcp/approval/definition-difference.ts';
import { hashDefinition, readDefinition, type ToolDefinition } from '../../policy/definition-hash.ts';
import { DIRECTORY_ORIGIN } from '../../sms/directory.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { type SpearCommand, type SpearContext, serverPath } from '../spear/command.ts';
import { printable } from '../table.ts';
import type { ShownServer } from './ls.ts';
import { sideBySide } from './side-by-side.ts';
import { type RunServerFlags, runServer } from './test.ts';

interface ShownPin {
  readonly tool_name: string;
  readonly sha256: string;
  readonly definition: JsonObject | null;
}

const DEFAULT_COLUMNS = 100;

interface PinFlags extends RunServerFlags {
  readonly yes: boolean;
}

/** Shows current tool definitions beside the pinned ones; --yes pins the current ones. */
export const pinServer: SpearCommand<PinFlags> = async (context) => {
  const { flags, args, client, print, say } = context;
  const [id = '', ...names] = args;
  const before = await pinsOf(context, id);
  const result = await runServer(context, id);
  if (result === null) return spearExitCodes.failed;
  const chosen = names.length > 0 ? names : result.tools.filter(({ allowed }) => allowed).map(({ name }) => name);
  const found = chosen.map((name) => ({ name, tool: result.tools.find((tool) => tool.name === name) }));
  const missing = found.filter(({ tool }) => tool === undefined).map(({ name }) => name);
  if (missing.length > 0) {
    for (const name of missing) say(`${id}: no tool "${name}"`);
    return spearExitCodes.failed;
  }
  const tools = found.map(({ name, tool }) => ({ name, now: readDefinition(tool?.definition ?? {}) }));
  const changes = tools.map(({ name, now }) => ({ name, now, ...stateOf(before.get(name), now) }));
  if (!flags.json) for (const change of changes) print(changeText(change));
  const isNew = changes.some(({ state }) => state !== 'same');
  if (flags.yes && isNew) {
    const body = JSON.stringify({ tools: Object.fromEntries(tools.map(({ name, now }) => [name, now])) });
    const warn = await fileWarning(context, id);
    await client.request('PUT', `${serverPath(id)}/pins`, { body, contentType: 'application/json' });
    await warn();
  } else if (isNew) say('nothing was changed; --yes pins these definitions');
  if (flags.json) {
    const shown = changes.map(({ name, state, now }) => ({ tool_name: name, state, sha256: hashDefinition(now) }));
    print(`${JSON.stringify({ server_id: id, accepted: flags.yes, tools: shown })}\n`);
  }
  return spearExitCodes.ok;
};

/** Removes pins: the server may change these tools again. */
export const unpinServer: SpearCommand = async (context) => {
  const { flags, args, client, print, say } = context;
  const [id = '', ...names] = args;
  const before = await pinsOf(context, id);
  const chosen = names.length > 0 ? names : [...before.keys()];
  const unpinned = chosen.filter((name) => !before.has(name));
  for (const name of unpinned) say(`${id}: "${name}" is not pinned`);
  if (unpinned.length > 0) return spearExitCodes.failed;
  const body = JSON.stringify({ tools: Object.fromEntries(chosen.map((name) => [name, null])) });
  const warn = await fileWarning(context, id);
  const { value } = await client.request('PUT', `${serverPath(id)}/pins`, { body, contentType: 'application/json' });
  if (flags.json) print(`${JSON.stringify(value)}\n`);
  else for (const name of chosen) print(`${printable(name)} unpinned\n`);
  await warn();
  return spearExitCodes.ok;
};

async function pinsOf({ client }: Pick<SpearContext, 'client'>, id: string): Promise<ReadonlyMap<string, ShownPin>> {
  const { value } = await client.request('GET', `${serverPath(id)}/pins`);
  const { pins } = value as unknown as { pins: readonly ShownPin[] };
  return new Map(pins.map((pin) => [pin.tool_name, pin]));
}

function stateOf(pin: ShownPin | undefined, now: ToolDefinition) {
  if (pin === undefined) return { state: 'new', before: null } as const;
  const state = pin.sha256 === hashDefinition(now) ? 'same' : 'changed';
  return { state, before: pin.definition === null ? null : readDefinition(pin.definition) } as const;
}

interface Change {
  readonly name: string;
  readonly state: 'new' | 'same' | 'changed';
  readonly before: ToolDefinition | null;
  readonly now: ToolDefinition;
}

function changeText({ name, state, before, now }: Change): string {
  const title = `${visible(name)}: ${state === 'same' ? 'unchanged' : state === 'new' ? 'not pinned' : 'CHANGED'}`;
  const columns = process.stdout.columns ?? DEFAULT_COLUMNS;
  if (state === 'same') return `${title}\n`;
  if (state === 'new') return `${title}\n${sideBySide([{ path: 'description', after: now.description }], columns)}`;
  if (before === null) return `${title}; only the hash of the pinned definition is known\n`;
  return `${title}\n${sideBySide(definitionChanges(before, now), columns)}`;
}

/** A file of the registry directory overrides pins at the next load: print what to add to it. */
async function fileWarning(
  { client, say }: Pick<SpearContext, 'client' | 'say'>,
  id: string,
): Promise<() => Promise<void>> {
  const read = async () => (await client.request('GET', serverPath(id))).value as unknown as ShownServer;
  const { origin } = await read();
  return async () => {
    if (!origin.startsWith(DIRECTORY_ORIGIN)) return;
    const pins = Object.entries((await read()).pins).map(([tool, sha256]) => `${JSON.stringify(tool)} = "${sha256}"`);
    say(`this server comes from ${origin}: add the next line there, or the next load removes the pins`);
    say(`pins = { ${pins.join(', ')} }`);
  };
}
