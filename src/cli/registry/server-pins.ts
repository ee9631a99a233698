import { definitionChanges } from '../../agent/approvals/presentation.ts';
import { hashDefinition, readDefinition, type ToolDefinition } from '../../agent/policy/definition-hash.ts';
import type { JsonObject, JsonValue } from '../../base/json.ts';
import { cutText, visible } from '../../base/text.ts';
import type { DefinitionChange } from '../../server/records/approval.ts';
import { DIRECTORY_ORIGIN } from '../../server/store/directory/directory.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { printable } from '../formatting.ts';
import { type SpearCommand, type SpearContext, serverPath } from '../spear/command.ts';
import { type RunServerFlags, runServer } from './server-test.ts';
import type { ShownServer } from './servers.ts';

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

const MIN_COLUMNS = 40;
const BETWEEN = ' │ ';
const INDENT = '  ';
/** Characters shown of one value; --json prints all of it. */
const MAX_CHARS = 4_000;

/** What was pinned on the left, what is there now on the right. All of it is a server's own text: nothing of it is obeyed. */
export function sideBySide(changes: readonly DefinitionChange[], columns: number): string {
  const width = Math.floor((Math.max(columns, MIN_COLUMNS) - INDENT.length - BETWEEN.length) / 2);
  const row = (left: string, right: string) => `${INDENT}${left.padEnd(width)}${BETWEEN}${right}`.trimEnd();
  const lines = changes.flatMap(({ path, before, after }) => {
    const [left, right] = [broken(before, width), broken(after, width)];
    const height = Math.max(left.length, right.length);
    const rows = Array.from({ length: height }, (_, at) => row(left[at] ?? '', right[at] ?? ''));
    return [`${INDENT}${visible(cutText(path, MAX_CHARS))}:`, row('pinned', 'now'), ...rows];
  });
  return lines.map((line) => `${line}\n`).join('');
}

function broken(value: JsonValue | undefined, width: number): string[] {
  if (value === undefined) return ['(none)'];
  const text = visible(cutText(typeof value === 'string' ? value : JSON.stringify(value), MAX_CHARS));
  const parts: string[] = [];
  const letters = [...text];
  for (let at = 0; at < letters.length; at += width) parts.push(letters.slice(at, at + width).join(''));
  return parts.length === 0 ? ["''"] : parts;
}
