import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { AUDIT_KEY } from '../../scripts/compat/recorded-node.ts';
import { auditKey } from '../../src/server/audit/chain.ts';
import { rotatedFiles } from '../../src/server/audit/file.ts';
import { openAuditLog } from '../../src/server/audit/log.ts';
import { verifyTrail } from '../../src/server/audit/verify.ts';
import { trailLines } from '../server/audit/audit-schema.ts';
import { compatFixture, copiedFixture } from './copied-fixture.ts';

const allFiles = (file: string) => [...rotatedFiles(file), file];
const eventsOf = (files: readonly string[]) =>
  new Set(files.flatMap((file) => trailLines(readFileSync(file, 'utf8')).map(({ event }) => event)));

describe('audit files of version 0.2.0', () => {
  it('are verified over all rotated files, and have the schema of today [compat.audit]', () => {
    const files = allFiles(compatFixture('0.2.0/audit.jsonl'));
    expect(files).toHaveLength(6);
    const verified = verifyTrail(files);
    expect(verified).toMatchObject({ problem: null, lines: 56, repaired: 0, lost: 0, unchained: 0 });
    expect(verified.chains).toHaveLength(3);
    for (const chain of verified.chains) expect(chain).toMatchObject({ from: 0, ended: true, proved: true });
    expect([...eventsOf(files)]).toEqual(
      expect.arrayContaining(['chain.started', 'chain.rotated', 'tool_call.started', 'tool_call.finished']),
    );
  });

  it('are appended to [compat.audit]', async () => {
    const path = join(copiedFixture('0.2.0'), 'audit.jsonl');
    const log = openAuditLog({ path });
    log.forService().write({ event: 'sms.ended' });
    await log.close();
    const verified = verifyTrail(allFiles(path));
    expect(verified).toMatchObject({ problem: null, lines: 59 });
    expect(verified.chains).toHaveLength(4);
  });
});

describe.each([
  ['registry', 'sms.approval_decided'],
  ['node', 'tool_call.finished'],
])('signed audit files of a %s', (name, event) => {
  const file = compatFixture(`${name}/audit.jsonl`);

  it('are verified with their key [compat.audit]', () => {
    const { problem, chains } = verifyTrail([file], [auditKey(AUDIT_KEY)]);
    expect(problem).toBeNull();
    expect(chains.length).toBeGreaterThan(1);
    for (const chain of chains) expect(chain).toMatchObject({ from: 0, proved: true });
    expect(readFileSync(file, 'utf8')).toContain(`"event":"${event}"`);
  });

  it('are refused with another key [compat.audit]', () => {
    expect(verifyTrail([file], [auditKey('another key than that of the fixture')]).problem).toMatchObject({
      kind: 'key',
      line: 1,
    });
  });
});
