import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { AuditEvent } from '../../src/telemetry/audit-event.ts';
import { openAuditFile } from '../../src/telemetry/audit-file.ts';
import { tempDir } from '../pool/pool-samples.ts';
import { auditEvents, auditLines, auditProblem } from './audit-schema.ts';

const unexpected = (error: Error) => {
  throw error;
};
const started: AuditEvent = { event: 'guest.started', module: 'a.wasm', task: null };
const call = { session: 'chat-1', request: 'call_1', source: 'mcp', server: 'fs', tool: 'read' } as const;
const exclusion = { server: 'x', tool: null, reason: 'unknown_server', layer: 'registry', detail: 'not there' };

const samples: readonly AuditEvent[] = [
  started,
  { event: 'guest.ended', status: 'exit', exit_code: 0, duration_ms: 3 },
  { event: 'session.created', session: 'chat-1', registry_revision: 1, servers: ['fs'], exclusions: [exclusion] },
  {
    event: 'mcp.injected',
    session: 'chat-1',
    server: 'fs',
    status: 'ok',
    reason: null,
    tools: 3,
    exclusions: [],
    duration_ms: 1,
  },
  { event: 'tool_call.started', ...call, arguments: { path: 'string(3)' } },
  { event: 'tool_call.finished', ...call, status: 'ok', reason: null, duration_ms: 1, bytes: 2 },
  { event: 'budget.hit', session: null, server: null, tool: null, budget: 'max_iterations' },
];

describe('the audit file', () => {
  it('has one JSON object a line, of the schema, in the order of what happened [audit.lines] [audit.schema]', () => {
    const path = join(tempDir(), 'audit.jsonl');
    const audit = openAuditFile(path, unexpected);
    for (const event of samples) audit.write('run-1', event);
    audit.close();
    const lines = auditLines(readFileSync(path, 'utf8'));
    expect(lines.map(({ v, time, run, ...event }) => event)).toEqual(samples);
    expect(lines.every(({ v, run }) => v === 1 && run === 'run-1')).toBe(true);
    expect(auditEvents).toEqual(samples.map(({ event }) => event));
  });

  it('has every line on disk before the next thing happens [audit.lines]', () => {
    const path = join(tempDir(), 'audit.jsonl');
    const audit = openAuditFile(path, unexpected);
    for (let lines = 1; lines <= 3; lines++) {
      audit.write('run-1', started);
      expect(auditLines(readFileSync(path, 'utf8'))).toHaveLength(lines);
    }
    audit.close();
  });

  it('is made for its owner alone, and its lines are added to one that is there [audit.mode]', () => {
    const dir = tempDir();
    const [fresh, old] = [join(dir, 'fresh'), join(dir, 'old')];
    writeFileSync(old, '{"an":"older line"}\n');
    chmodSync(old, 0o640);
    for (const path of [fresh, old]) {
      const audit = openAuditFile(path, unexpected);
      audit.write('run-1', started);
      audit.close();
    }
    expect(statSync(fresh).mode & 0o777).toBe(0o600);
    expect(statSync(old).mode & 0o777).toBe(0o640);
    expect(readFileSync(old, 'utf8')).toMatch(/^\{"an":"older line"\}\n\{"v":1,.*\}\n$/);
  });

  it('may be written by two at once, line by line [audit.lines]', () => {
    const path = join(tempDir(), 'audit.jsonl');
    const [one, two] = [openAuditFile(path, unexpected), openAuditFile(path, unexpected)];
    for (let round = 0; round < 3; round++) {
      one.write('run-1', started);
      two.write('run-2', started);
    }
    for (const audit of [one, two]) audit.close();
    expect(auditLines(readFileSync(path, 'utf8')).map(({ run }) => run)).toEqual(
      Array(3).fill(['run-1', 'run-2']).flat(),
    );
  });

  it('keeps text of others inside its line [audit.lines]', () => {
    const path = join(tempDir(), 'audit.jsonl');
    const audit = openAuditFile(path, unexpected);
    const tool = 'evil"}\n{"v":1,"event":"guest.ended"\u2028\ud800';
    audit.write('run-1', { event: 'budget.hit', session: null, server: null, tool, budget: 'pool' });
    audit.close();
    const [line, ...more] = auditLines(readFileSync(path, 'utf8'));
    expect([line?.tool, more]).toEqual([tool, []]);
  });

  it('fails when it is opened where it cannot be written [audit.failure]', () => {
    const dir = tempDir();
    expect(() => openAuditFile(dir, unexpected)).toThrow(/EISDIR/);
    expect(() => openAuditFile(join(dir, 'no', 'audit'), unexpected)).toThrow(/ENOENT/);
  });

  it.runIf(process.platform === 'linux')(
    'never fails the work when the disk is full, and says so once [audit.failure]',
    () => {
      const failures: (string | undefined)[] = [];
      const audit = openAuditFile('/dev/full', ({ code }) => failures.push(code));
      for (let round = 0; round < 3; round++) audit.write('run-1', started);
      audit.close();
      expect(failures).toEqual(['ENOSPC']);
    },
  );
});

describe('the schema', () => {
  const line = { v: 1, time: '2026-01-02T03:04:05.678Z', run: 'run-1', ...samples[5] };

  it.each<[string, object]>([
    ['another version', { v: 2 }],
    ['another time', { time: 'yesterday' }],
    ['another event', { event: 'tool_call.paused' }],
    ['no tool', { tool: null }],
    ['a status nobody knows', { status: 'fine' }],
    ['a negative duration', { duration_ms: -1 }],
    ['a fraction of a byte', { bytes: 1.5 }],
  ])('refuses %s [audit.schema]', (_, change) => {
    expect(auditProblem(line)).toBeNull();
    expect(auditProblem({ ...line, ...change })).not.toBeNull();
  });

  it('lets fields be added, and none be left out [audit.schema]', () => {
    expect(auditProblem({ ...line, extra: true })).toBeNull();
    for (const key of Object.keys(line)) {
      const { [key as keyof typeof line]: _left, ...rest } = line;
      expect([key, auditProblem(rest)]).not.toEqual([key, null]);
    }
  });

  it('refuses arguments that say more than their shape [audit.schema]', () => {
    const started = { v: 1, time: line.time, run: 'run-1', ...samples[4] };
    expect(auditProblem(started)).toBeNull();
    expect(auditProblem({ ...started, arguments: null })).toBeNull();
    expect(auditProblem({ ...started, arguments: { path: { of: 'a file' } } })).not.toBeNull();
  });
});
