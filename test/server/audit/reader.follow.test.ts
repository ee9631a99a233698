import { appendFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { expect, it, onTestFinished } from 'vitest';
import { AuditFollower } from '../../../src/server/audit/reader.ts';
import { newTrail, numbered, openWriter } from './audit-samples.ts';

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);

function follow(path: string) {
  const follower = new AuditFollower(path);
  onTestFinished(() => follower.close());
  return () =>
    [...follower.read()].flatMap((line) => [...line.matchAll(/"budget":"(\d+)"/g)].map(([, n]) => Number(n)));
}

it('a follower has every line once, however many rotations there were between two looks', () => {
  for (const looksAfter of [1, 3, 7, 40, 200]) {
    const path = newTrail();
    const writer = openWriter(path, { maxBytes: 2_048, keep: 1_000 });
    writer.append([numbered(1_000)]);
    const added = follow(path);
    const found: number[] = [];
    for (const number of range(0, 200)) {
      writer.append([numbered(number)]);
      if (number % looksAfter === looksAfter - 1) found.push(...added());
    }
    expect([...found, ...added()]).toEqual(range(0, 200));
    expect(added()).toEqual([]);
  }
});

it('waits for a rotation that is under way, and passes by one that was given up', () => {
  const path = newTrail();
  writeFileSync(path, '');
  const added = follow(path);
  appendFileSync(path, '{"budget":"1"}\n');
  writeFileSync(`${path}.1`, '');
  renameSync(path, `${path}.1`);
  writeFileSync(`${path}.2`, ''); // reserved
  writeFileSync(path, '{"budget":"3"}\n');
  expect(added()).toEqual([1]);
  writeFileSync(`${path}.2`, '{"budget":"2"}\n');
  expect(added()).toEqual([2, 3]);
});

it('begins with a file that is not there yet, and shows no half line', () => {
  const path = newTrail();
  const added = follow(path);
  expect(added()).toEqual([]);
  writeFileSync(path, '{"budget":"1"}\n{"bud');
  expect(added()).toEqual([1]);
  appendFileSync(path, 'get":"2"}\n');
  expect(added()).toEqual([2]);
  rmSync(path);
  expect(added()).toEqual([]);
  writeFileSync(path, '{"budget":"3"}\n');
  expect(added()).toEqual([3]);
});
