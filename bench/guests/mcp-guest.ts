import { ARGUMENTS, type EchoServer, resultOf, SERVER_ID, TOOL } from './echo-servers.ts';
import type { GuestFolder } from './guest-process.ts';
import { DROP, loadFrom, mustBe, storeAt } from './instructions.ts';
import { type Steps, steppingGuest } from './stepping-guest.ts';

/** Calls of one batch. */
export const SUBMITTED = 32;
/** The step that submits a batch; the other one makes one call. */
export const BATCH = 1;
/** Where the guest keeps the descriptors of what it has submitted. */
const CALL_FDS = 512;

/** A guest that calls the tool of a server, one at a time or in batches. */
export function callingGuest(server: EchoServer): Uint8Array {
  const expected = resultOf(server).length;
  return steppingGuest({
    setup: (steps) => steps.set(0, steps.call('mcp_open', ...steps.text(SERVER_ID))),
    step: oneByOne(expected),
    otherStep: submitted(expected),
  });
}

/** MCP as a task has it by default, with its trail. */
export function mcpFlags(folder: GuestFolder, records: readonly object[], backend = ''): string[] {
  const ids = records.map((record) => (record as { server_id: string }).server_id);
  const config = { 'mcp.enabled': 'true', 'mcp.default_server_ids': JSON.stringify(ids) };
  const task = folder.file('task.json', { name: 'bench', config });
  for (const [index, record] of records.entries()) folder.file(`mcp.d/${ids[index]}.json`, record);
  const files = ['--task-config', task, '--config', hostConfig(folder, backend), '--mcp-dir', `${folder.path}/mcp.d`];
  return [...files, '--audit', `${folder.path}/audit.jsonl`];
}

/** Without its one line a node reaches no server on its own machine. */
export const hostConfig = (folder: GuestFolder, backend: string): string =>
  folder.file('host.toml', `[egress]\nallow_addresses = ["loopback"]\n${backend}`);

const oneByOne = (expected: number) => (steps: Steps) => {
  const [tool, args] = [steps.text(TOOL), steps.text(ARGUMENTS)];
  const called = steps.call('mcp_call_tool', steps.get(0), ...tool, ...args, ...steps.out);
  return [...steps.setCapacity, ...mustBe(called, expected)];
};

const submitted = (expected: number) => (steps: Steps) => {
  const [tool, args] = [steps.text(TOOL), steps.text(ARGUMENTS)];
  const places = Array.from({ length: SUBMITTED }, (_, index) => CALL_FDS + index * 4);
  const submit = (place: number) => storeAt(place, steps.call('mcp_submit', steps.get(0), ...tool, ...args));
  const take = (place: number) => [
    ...steps.setCapacity,
    ...mustBe(steps.call('mcp_result', loadFrom(place), ...steps.out), expected),
    ...[...steps.call('mcp_close', loadFrom(place)), ...DROP],
  ];
  return [...places.flatMap(submit), ...places.flatMap(take)];
};
