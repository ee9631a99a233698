import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type Call, calls, type Param } from '../../../src/runtime/abi/calls.ts';
import { readJournal } from '../../../src/runtime/durable/read-journal.ts';
import { type EventKind, parseEvents } from '../../../src/runtime/port/journal-events.ts';
import { runFixture } from '../../support/run-fixture.ts';
import {
  BIG,
  guestModule,
  LENGTH,
  number,
  sessionWithTool,
  setLength,
  text,
} from '../../torture/guests/guest-module.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-call-table-'));
afterAll(() => rmSync(folder, { recursive: true }));

const rows: readonly Call[] = calls;
/** What of a journal's events each word of the table stands for. */
const kinds: Readonly<Record<Call['records'][number], readonly EventKind[]>> = {
  messages: ['r'],
  value: ['c', 'd'],
  timeout: ['t'],
};

function passed(call: string, { name, kind }: Param): string {
  if (kind === 'fd') return name === 'epfd' ? '(local.get $r)' : '(local.get $s)';
  if (kind === 'text' || kind === 'bytes') return text('user');
  if (kind === 'out' || kind === 'arg') return `${number(BIG)} ${number(LENGTH)}`;
  return number(call === 'cchat_send' ? 0 : 1);
}

/** A guest with a session and an epoll that makes the call, and ends with what it came to. */
function calling({ name, params, result }: Call): Promise<Uint8Array> {
  const made = `(call $${name} ${params.map((param) => passed(name, param)).join(' ')})`;
  const given = result === 'none' ? `${made} (i32.const 1)` : result === 'i64' ? `(i32.wrap_i64 ${made})` : made;
  return guestModule({
    run: `${sessionWithTool} (local.set $r (call $spear_epoll_create)) ${setLength(64)}
      (return (i32.and (block (result i32) ${given}) (i32.const 63)))`,
  });
}

describe('of each call of the table a journal keeps what its row says', () => {
  it.each(rows.map((row) => [row.name, row] as const))('%s', async (name, row) => {
    const wasm = await calling(row);
    const file = join(folder, `${name}.journal`);
    const recorded = await runFixture(wasm, { journal: { file } });
    expect(recorded).toMatchObject({ reason: 'exit' });
    // What is absent answers without any handler.
    expect(Object.hasOwn(recorded.hostcalls, name)).toBe(row.support !== 'absent');
    const replayed = await runFixture(wasm, { journal: { file, mode: 'replay' } });
    expect(replayed).toMatchObject({ reason: 'exit', exitCode: recorded.exitCode, stdout: recorded.stdout });

    const events = readJournal(file).records.flatMap((record) => (record.t === 'guest' ? parseEvents(record.e) : []));
    const last = Object.values(recorded.hostcalls).reduce((sum, count) => sum + count, 0);
    const found = events.filter(({ call, kind }) => call === last && kind !== 'k').map(({ kind }) => kind);
    const allowed = row.records.flatMap((word) => kinds[word]);
    for (const kind of found) expect(allowed).toContain(kind);
    // A clock, dice and a wait that nothing ends always have something to keep.
    if (row.records.includes('value')) expect(found).toHaveLength(1);
    if (row.records.includes('timeout')) expect(found).toContain('t');
  });
});
