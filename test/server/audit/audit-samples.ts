import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditEvent } from '../../../src/server/audit/event.ts';
import { rotatedFiles } from '../../../src/server/audit/file.ts';
import { auditJson } from '../../../src/server/audit/line-json.ts';
import { originOf } from '../../../src/server/audit/log.ts';
import { verifyTrail } from '../../../src/server/audit/verify.ts';
import { AuditWriter, type AuditWriterOptions } from '../../../src/server/audit/writer.ts';
import { tempDir } from '../../agent/mcp/client/pool-samples.ts';
import { trailLines } from './audit-schema.ts';

const call = { session_id: 'chat-1', request_id: 'call_1', source: 'mcp', server_id: 'fs', tool_name: 'read' } as const;
const exclusion = {
  server_id: 'x',
  tool_name: null,
  reason: 'unknown_server',
  layer: 'registry' as const,
  detail: 'not there',
};
const digests = { args_sha256: 'a'.repeat(64), tool_sha256: 'b'.repeat(64) };
const { source: _, ...asked } = call;

const caller = {
  actor: 'ci',
  role: 'admin',
  namespace: '*',
  peer: '127.0.0.1',
  via: 'http',
  method: 'PUT /servers/{id}',
} as const;

/** One of every kind that a registry writes. */
const approval = {
  approval_id: '0123456789abcdef-1',
  approval_namespace: 'default',
  run: 'run-1',
  ordinal: '5.1.1',
  task_name: 'notes',
  session_id: 'chat-1',
  server_id: 'fs',
  kind: 'tool',
  tool_name: 'write_file',
  args_sha256: '0'.repeat(64),
  tool_sha256: '0'.repeat(64),
  needed: 1,
  decided_by: 'ann',
} as const;

export const smsSamples = [
  { event: 'sms.started', epoch: 'e', revision: 7, servers: 2, grpc: 'a:1', http: 'http://a:2', auth: true },
  { event: 'sms.write_started', ...caller, servers: ['fs'], changes: 1 },
  {
    event: 'sms.record_changed',
    ...caller,
    server_id: 'fs',
    action: 'update',
    revision: 8,
    fields: ['tags'],
    before: { tags: [] },
    after: { tags: ['new'] },
  },
  { event: 'sms.profile_write_started', ...caller, profiles: ['review'], changes: 1 },
  {
    event: 'sms.profile_changed',
    ...caller,
    profile: 'review',
    action: 'update',
    revision: 3,
    fields: ['server_ids'],
    before: { server_ids: [] },
    after: { server_ids: ['fs'] },
  },
  { event: 'sms.stop_write_started', ...caller, stops: ['3f9a12bc'], changes: 1 },
  {
    event: 'sms.stop_changed',
    ...caller,
    stop_id: '3f9a12bc',
    action: 'create',
    revision: 1,
    fields: [],
    before: null,
    after: { scope: 'namespace', name: 'team-a', effect: 'stop', reason: 'incident 12' },
  },
  { event: 'sms.task_write_started', ...caller, tasks: ['default/notes'], changes: 1 },
  {
    event: 'sms.task_changed',
    ...caller,
    task_id: 'default/notes',
    action: 'update',
    revision: 3,
    fields: ['live'],
    before: { live: { revision: 1 } },
    after: { live: { revision: 2 } },
  },
  { event: 'sms.token_write_started', ...caller, tokens: ['ci'], changes: 1 },
  {
    event: 'sms.token_changed',
    ...caller,
    token: 'ci',
    action: 'create',
    revision: 1,
    fields: [],
    before: null,
    after: { name: 'ci', roles: ['viewer'] },
  },
  { event: 'sms.approval_write_started', ...caller, approval_id: 'a-1', action: 'decide' },
  { event: 'sms.approval_requested', ...caller, ...approval, reason: 'always', args: { path: '/x' } },
  { event: 'sms.approval_decided', ...caller, ...approval, decision: 'deny', status: 'denied', reason: 'no' },
  { event: 'sms.approval_ended', ...caller, ...approval, status: 'used', reason: null },
  { event: 'sms.approval_read', ...caller, ...approval },
  { event: 'sms.journal_read', ...caller, run: 'run-1', run_namespace: 'default' },
  { event: 'sms.login', ...caller, expires_at: '2026-01-01T08:00:00.000Z' },
  { event: 'sms.served', ...caller, code: '200' },
  {
    event: 'sms.refused',
    ...caller,
    actor: null,
    role: null,
    namespace: null,
    status: 'denied',
    code: '401',
    reason: 'unauthorized',
  },
  {
    event: 'sms.reloaded',
    ...caller,
    peer: null,
    actor: null,
    role: null,
    namespace: null,
    via: 'process',
    method: 'none',
    status: 'applied',
    reason: null,
    changes: 3,
    problems: 0,
  },
  { event: 'sms.ended' },
] as const satisfies readonly AuditEvent[];

/** One of every kind that a run writes. */
export const samples = [
  { event: 'guest.started', module: 'a.wasm', module_sha256: 'c'.repeat(64) },
  { event: 'guest.ended', status: 'exit', exit_code: 0, duration_ms: 3 },
  { event: 'session.created', session_id: 'chat-1', revision: 1, servers: ['fs'], exclusions: [exclusion] },
  {
    event: 'mcp.injected',
    session_id: 'chat-1',
    server_id: 'fs',
    status: 'ok',
    reason: null,
    tools: 3,
    exclusions: [],
    duration_ms: 1,
  },
  { event: 'tool_call.started', ...call, args: { path: 'a.txt' } },
  { event: 'tool_call.finished', ...call, status: 'ok', reason: null, duration_ms: 1, output_bytes: 2, revision: 7 },
  { event: 'approval.asked', ...asked, ...digests, revision: 7, reason: 'approval_policy: always', args: null },
  {
    event: 'approval.decided',
    ...asked,
    ...digests,
    revision: 7,
    status: 'allowed',
    decision: 'allow_once',
    decided_by: 'terminal',
    reason: null,
    duration_ms: 900,
  },
  { event: 'registry.applied', epoch: 'e', revision: 8, upserted: ['fs'], deleted: [], upserts: 1, deletes: 0 },
  { event: 'budget.hit', session_id: null, server_id: null, tool_name: null, budget: 'max_iterations' },
  {
    event: 'model_call.finished',
    session_id: 'chat-1',
    backend: 'openai',
    model: 'small',
    status: 'ok',
    reason: null,
    duration_ms: 20,
    input_tokens: 7,
    output_tokens: null,
  },
  {
    event: 'events.folded',
    of: 'tool_call.finished',
    server_id: 'fs',
    tool_name: 'write',
    status: 'denied',
    reason: 'denied_by_task',
    peer: null,
    method: null,
    count: 9_980,
    first_ts: '2026-01-02T03:04:05.678Z',
    last_ts: '2026-01-02T03:04:15.678Z',
  },
  { event: 'registry.state', state: 'refused', reason: '[unauthenticated]' },
  { event: 'profiles.applied', epoch: 'e', revision: 2, upserted: ['review'], deleted: [], upserts: 1, deletes: 0 },
  { event: 'elicitation.asked', ...asked, mode: 'url', host: 'login.example' },
  {
    event: 'elicitation.answered',
    ...asked,
    mode: 'form',
    action: 'decline',
    decided_by: 'nobody',
    reason: 'no user is available to answer',
    duration_ms: 0,
  },
  { event: 'tool_call.progress', ...call, source: 'mcp', progress: 1, total: null },
] as const satisfies readonly AuditEvent[];

export const newTrail = (): string => join(tempDir(), 'audit.jsonl');

/** An event of a run that can be told from the others. */
export const numbered = (number: number, instance = 'run-1'): string =>
  auditJson('test', instance, { ...samples[9], budget: String(number) });

let chains = 0;

export function openWriter(path: string, options: Partial<AuditWriterOptions> = {}): AuditWriter {
  const chain = (++chains).toString(16).padStart(16, '0');
  const about = { chain, origin: originOf('test'), key: null, startedAt: new Date() };
  return new AuditWriter({ path, maxBytes: 0, keep: 10, ...about, ...options });
}

/** The files of a trail, oldest first. */
export const filesOf = (path: string): string[] => [...rotatedFiles(path), path].filter((file) => existsSync(file));

export const verified = (path: string) => verifyTrail(filesOf(path));

/** All lines, each checked against the schema. */
export const linesOf = (path: string) => filesOf(path).flatMap((file) => trailLines(readFileSync(file, 'utf8')));

/** The numbers of {@link numbered} events and of changes, in the order of the trail. */
export const numbersOf = (path: string): number[] =>
  linesOf(path).flatMap(({ event, budget, revision }) => {
    if (event === 'budget.hit') return [Number(budget)];
    return event === 'registry.applied' ? [Number(revision)] : [];
  });

export const eventsOf = (path: string) => linesOf(path).map(({ event }) => event);
