import { appendFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { readTrail, type TrailQuestion } from '../../src/registry/audit/read-trail.ts';
import { startTestSms, stopAll, temporaryDirectory } from './running-sms.ts';

afterEach(stopAll);

/** Lines are written in batches. */

const line = (number: number, more = '') => `${JSON.stringify({ event: 'sms.served', number, more })}\n`;
const all: TrailQuestion = { before: null, after: null, limit: 100, wanted: () => true };

function trailOf(...numbers: readonly number[]): string {
  const file = join(temporaryDirectory(), 'audit.jsonl');
  writeFileSync(file, numbers.map((number) => line(number)).join(''));
  return file;
}

const numbersOf = ({ lines }: Awaited<ReturnType<typeof readTrail>>) => lines.map(({ line: read }) => read?.number);

it('reads the newest lines first, and goes on where it was [console.audit]', async () => {
  const file = trailOf(1, 2, 3, 4, 5);
  const first = await readTrail(file, { ...all, limit: 2 });
  expect(numbersOf(first)).toEqual([5, 4]);
  const second = await readTrail(file, { ...all, limit: 2, before: first.older });
  expect(numbersOf(second)).toEqual([3, 2]);
  const third = await readTrail(file, { ...all, before: second.older });
  expect([numbersOf(third), third.older]).toEqual([[1], null]);
});

it('follows what is added, half a line only once it is whole, over a rotation [console.audit]', async () => {
  const file = trailOf(1, 2);
  const { newest } = await readTrail(file, all);
  expect(numbersOf(await readTrail(file, { ...all, after: newest }))).toEqual([]);
  const whole = line(3);
  appendFileSync(file, whole.slice(0, 10));
  const half = await readTrail(file, { ...all, after: newest });
  expect([numbersOf(half), half.newest]).toEqual([[], newest]);
  appendFileSync(file, whole.slice(10));
  const added = await readTrail(file, { ...all, after: half.newest });
  expect(numbersOf(added)).toEqual([3]);
  appendFileSync(file, line(4));
  renameSync(file, `${file}.1`);
  writeFileSync(file, line(5));
  const rotated = await readTrail(file, { ...all, after: added.newest });
  expect(numbersOf(rotated)).toEqual([5, 4]);
  expect(numbersOf(await readTrail(file, { ...all, after: rotated.newest }))).toEqual([]);
  expect(numbersOf(await readTrail(file, all))).toEqual([5, 4, 3, 2, 1]);
});

it('finds what is wanted in lines of any length, and shows none that is too long [console.audit]', async () => {
  const file = trailOf();
  writeFileSync(file, [1, 2, 3].map((number) => line(number, 'x'.repeat(number === 2 ? 300_000 : 20_000))).join(''));
  const page = await readTrail(file, all);
  expect(numbersOf(page)).toEqual([3, undefined, 1]);
  expect(page.lines[1]?.bytes).toBeGreaterThan(300_000);
  expect(numbersOf(await readTrail(file, { ...all, wanted: (text) => text.includes('"number":1') }))).toEqual([1]);
});

it('reads no more than a bounded part for one page', async () => {
  const file = trailOf();
  const block = line(0, 'x'.repeat(60_000));
  for (let at = 0; at < 400; at++) appendFileSync(file, block);
  const page = await readTrail(file, { ...all, wanted: () => false });
  expect(page.scanned_bytes).toBeLessThan(17 * 1024 * 1024);
  expect(page.older).not.toBeNull();
});

it('has for somebody of one namespace the lines of that namespace alone', async () => {
  const sms = await startTestSms();
  const person = async (name: string) =>
    String(
      (await sms.http('POST', '/admin/api/tokens', { json: { name, roles: ['operator'], namespace: name } })).body
        .token,
    );
  const [mine, theirs] = [await person('team-a'), await person('team-b')];
  for (const token of [mine, theirs])
    await sms.http('POST', '/admin/api/mcp/servers', { token, json: { server_id: 'x' } });
  await expect
    .poll(async () => {
      const { body } = await sms.http('GET', '/admin/api/audit', { token: mine });
      return (body.lines as { line: { actor: string; event: string } }[]).map(({ line }) => [line.event, line.actor]);
    })
    .toEqual([['sms.refused', 'team-a']]);
});

it('is empty where there is no trail yet, and refused where a place is none', async () => {
  const missing = await readTrail(join(temporaryDirectory(), 'none.jsonl'), all);
  expect(missing).toMatchObject({ lines: [], older: null });
  const sms = await startTestSms();
  await sms.http('POST', '/admin/api/mcp/servers', { json: { server_id: 'x' } });
  await expect
    .poll(async () => (await sms.http('GET', '/admin/api/audit?event=sms.refused&q=INVALID-record')).body.lines)
    .toHaveLength(1);
  expect((await sms.http('GET', '/admin/api/audit?before=../../etc')).status).toBe(400);
  expect((await sms.http('GET', '/admin/api/audit?event=%22')).status).toBe(400);
  const without = await startTestSms({ audit: null });
  expect((await without.http('GET', '/admin/api/audit')).body).toMatchObject({ status: 404 });
});
