import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import { rotatedFiles } from '../../../src/server/audit/file.ts';
import { verifyTrail } from '../../../src/server/audit/verify.ts';
import { Cli, scratch, spearRun } from '../../e2e/spear-run.ts';
import { callingGuest, WAVE } from './calling-guest.ts';
import { eventually } from './client/pool-samples.ts';
import { recordDir, recordOf, taskWithMcp } from './mcp-run.ts';

const CALLS = 10_000;
/** Far above what it takes: other tests may keep the machine busy. */
const PATIENCE_MS = 55_000;

const flagsWith = (audit: string, ...more: string[]) => [
  ...taskWithMcp(['tiny']),
  ...['--mcp-dir', recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs') }), '--audit', audit, ...more],
];

/** Only the fields that are looked at: the trail is large. */
function toolCalls(files: readonly string[]): { started: string[]; finished: string[] } {
  const found = { started: [] as string[], finished: [] as string[] };
  for (const file of files) {
    for (const text of readFileSync(file, 'utf8').split('\n')) {
      if (!text.includes('"tool_call.') || !text.endsWith('}')) continue;
      const { event, request_id } = JSON.parse(text) as JsonObject;
      found[event === 'tool_call.started' ? 'started' : 'finished'].push(String(request_id));
    }
  }
  return found;
}

describe(`${CALLS} tool calls of a real guest at a real server`, () => {
  it(
    'are each in the trail exactly once, in a valid chain over rotated files',
    async () => {
      const audit = join(scratch, 'many.jsonl');
      const guest = callingGuest('tiny', 'echo', '{"message":"hi"}', CALLS);
      const { code, stderr } = await spearRun([guest, ...flagsWith(audit, '--audit-max-bytes', '2000000')]);
      expect([code, stderr]).toEqual([0, '']);
      const files = [...rotatedFiles(audit), audit];
      expect(files.length).toBeGreaterThan(3);
      const { problem, lost, chains } = verifyTrail(files);
      expect([problem, lost, chains.length, chains[0]?.ended]).toEqual([null, 0, 1, true]);
      const { started, finished } = toolCalls(files);
      expect(started).toHaveLength(CALLS);
      expect(new Set(started).size).toBe(CALLS);
      expect(finished.sort()).toEqual(started.sort());
    },
    PATIENCE_MS,
  );

  it(
    'and when the process is killed in between, the tail may miss, never the middle [audit.killed]',
    async () => {
      const audit = join(scratch, 'killed.jsonl');
      const guest = callingGuest('tiny', 'echo', '{"message":"hi"}', CALLS);
      const flags = flagsWith(audit);
      for (const bytes of [200_000, 900_000]) {
        const before = statSync(audit, { throwIfNoEntry: false })?.size ?? 0;
        const cli = new Cli([guest, ...flags]).listen();
        await eventually(() => expect(statSync(audit).size).toBeGreaterThan(before + bytes), PATIENCE_MS / 3);
        cli.child.kill('SIGKILL');
        expect((await cli.finished()).signal).toBe('SIGKILL');
      }
      const short = callingGuest('tiny', 'echo', '{"message":"hi"}', 10);
      expect((await spearRun([short, ...flags])).code).toBe(0);
      const { problem, chains, lost } = verifyTrail([audit]);
      expect([problem, lost, chains.map((chain) => chain.ended)]).toEqual([null, 0, [false, false, true]]);
      const lines = readFileSync(audit, 'utf8')
        .trimEnd()
        .split('\n')
        .map((text) => JSON.parse(text) as JsonObject);
      for (const { chain } of chains) {
        const own = lines.filter((line) => line.chain === chain);
        const requests = (event: string) => own.flatMap((line) => (line.event === event ? [line.request_id] : []));
        const [started, finished] = [requests('tool_call.started'), requests('tool_call.finished')];
        expect(new Set(started).size).toBe(started.length);
        expect(new Set(finished).size).toBe(finished.length);
        expect(new Set(finished).difference(new Set(started)).size).toBe(0);
        // Those of the last waves may have been under way; before them every call has both of its lines.
        const settled = new Set(started.slice(0, -2 * WAVE));
        expect(settled.difference(new Set(finished)).size).toBe(0);
        expect(started.length).toBeGreaterThanOrEqual(10);
      }
    },
    PATIENCE_MS,
  );
});
