import type { GatedCall } from '../../../src/agent/approvals/gate.ts';
import type { ToolDefinition } from '../../../src/agent/policy/definition-hash.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import {
  disabledTask,
  initialSession,
  type SessionPolicy,
  type TaskPolicy,
} from '../../../src/runtime/port/policy-layers.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import type { Random } from '../random.ts';
import { otherObject, randomObject } from './random-json.ts';

/** All that an approval is bound to, at one moment. */
export interface Situation {
  readonly run: string;
  readonly task: TaskPolicy;
  readonly call: GatedCall;
  readonly args: JsonObject;
  readonly definition: ToolDefinition;
  readonly record: McpServerRecord;
}

const SERVER = 'files';
const words = ['reads', 'writes', 'sends', 'erases'];

export function taskOf(fields: Partial<TaskPolicy> = {}): TaskPolicy {
  const ids = [SERVER, `${SERVER}2`];
  return { ...disabledTask, enabled: true, defaultServerIds: ids, allowedServerIds: ids, ...fields };
}

export function randomSituation(random: Random, mode: 'always' | 'policy'): Situation {
  const tool = random.pick(words);
  const task = taskOf(random.chance(2) ? { toolDenylist: ['never_*'] } : {});
  const session = `chat-${random.below(1_000)}`;
  const sessionPolicy: SessionPolicy | null = random.chance(2) ? initialSession(task) : null;
  const stdio = { command: `server-${random.below(9)}`, args: ['--safe'], env: { LEVEL: '1' } };
  const http = { url: 'https://tools.test/mcp', headers: { 'X-Level': '1' }, auth_ref: 'env:TOKEN' };
  const connected = random.chance(2) ? { stdio } : { transport: 'streamable_http', stdio: undefined, http };
  return {
    run: `run-${random.below(1_000)}`,
    task,
    call: {
      serverId: SERVER,
      tool,
      callId: `call-${random.below(1_000)}`,
      ordinal: `5.1.${random.below(9)}`,
      session,
      sessionPolicy,
    },
    args: randomObject(random),
    definition: {
      name: tool,
      description: `${tool} a file`,
      inputSchema: { type: 'object', properties: randomObject(random) },
      outputSchema: null,
      annotations: random.chance(2) ? null : { readOnlyHint: random.chance(2) },
    },
    record: Object.freeze({
      ...sampleRecord(SERVER, { ...connected, approval_policy: { default: mode, per_tool: {} } }),
      mod_revision: 1 + random.below(1_000),
    }),
  };
}

type Mutation = (now: Situation, random: Random) => Situation;

const call = (now: Situation, fields: Partial<GatedCall>): Situation => ({ ...now, call: { ...now.call, ...fields } });
const record = (now: Situation, fields: Partial<McpServerRecord>): Situation => ({
  ...now,
  record: Object.freeze({ ...now.record, ...fields }),
});
const definition = (now: Situation, fields: Partial<ToolDefinition>): Situation => ({
  ...now,
  definition: { ...now.definition, ...fields },
});
const session = (now: Situation, fields: Partial<SessionPolicy>): Situation =>
  call(now, { sessionPolicy: { ...(now.call.sessionPolicy ?? initialSession(now.task)), ...fields } });

/** What the record connects to; one kind of connection has no field of the other. */
const connection = (now: Situation, stdio: object, http: object): Situation =>
  now.record.stdio === null
    ? record(now, { http: { ...now.record.http, ...http } as McpServerRecord['http'] })
    : record(now, { stdio: { ...now.record.stdio, ...stdio } as McpServerRecord['stdio'] });

/** Of another call: a grant for the whole session is not bound to these. */
export const argumentMutations: Readonly<Record<string, Mutation>> = {
  'an argument': (now, random) => ({ ...now, args: otherObject(random, now.args) }),
  'one more argument': (now) => ({
    ...now,
    args: Object.fromEntries([...Object.entries(now.args), ['__proto__', { more: true }]]),
  }),
  'the ordinal': (now) => call(now, { ordinal: `${now.call.ordinal}0` }),
};

/** Everything else that an approval is bound to, each changed in one place. */
export const mutations: Readonly<Record<string, Mutation>> = {
  'the run': (now) => ({ ...now, run: `${now.run}0` }),
  'the session': (now) => call(now, { session: `${now.call.session}0` }),
  'the server': (now) => call(now, { serverId: `${SERVER}2` }),
  'the tool': (now) => call(now, { tool: `${now.call.tool} ` }),
  'the definition’s name': (now) => definition(now, { name: now.definition.name.toUpperCase() }),
  'the definition’s description': (now, random) =>
    definition(now, { description: `${now.definition.description}${random.pick([' ', '.', '\u202e', '\u200b'])}` }),
  'the definition’s schema': (now, random) =>
    definition(now, { inputSchema: otherObject(random, now.definition.inputSchema) }),
  'the definition’s annotations': (now, random) =>
    definition(now, {
      annotations: now.definition.annotations === null ? {} : otherObject(random, now.definition.annotations),
    }),
  'the record’s revision, later': (now, random) =>
    record(now, { mod_revision: now.record.mod_revision + 1 + random.below(9) }),
  'the record’s revision, earlier': (now) => record(now, { mod_revision: now.record.mod_revision - 1 }),
  'the record’s tools': (now, random) => record(now, { allowed_tools: random.pick([['**'], ['*', 'x'], []]) }),
  'the record’s command or url': (now) => connection(now, { command: 'evil' }, { url: 'https://evil.test/mcp' }),
  'the record’s arguments or headers': (now) => connection(now, { args: [] }, { headers: {} }),
  'the record’s env or auth_ref': (now) => connection(now, { env: { LEVEL: '2' } }, { auth_ref: 'env:OTHER' }),
  'the record’s sandbox': (now) =>
    record(now, { sandbox: { mode: 'none', network: 'allow', read_only_paths: [], writable_paths: [] } }),
  'the record’s approval policy': (now) =>
    record(now, { approval_policy: { ...now.record.approval_policy, per_tool: { other: 'always' } } }),
  'the task’s allowlist': (now) => ({ ...now, task: { ...now.task, toolAllowlist: ['*'] } }),
  'the task’s denylist': (now) => ({ ...now, task: { ...now.task, toolDenylist: [...now.task.toolDenylist, 'x'] } }),
  'the session’s allowlist': (now) => session(now, { toolAllowlist: ['*'] }),
  'the session’s denylist': (now) => session(now, { toolDenylist: ['x'] }),
};
