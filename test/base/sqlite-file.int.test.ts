import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { copyDatabase } from '../../src/base/sqlite-file.ts';

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'spear-sqlite-'));
});

afterEach(() => rmSync(directory, { recursive: true }));

it('copies a database whose write transaction is open when the copy starts', async () => {
  const db = new DatabaseSync(join(directory, 'source.db'));
  db.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)');
  const copying = copyDatabase(db, join(directory, 'copy.db'));
  await setTimeout(50);
  db.exec('COMMIT');
  await copying;
  db.close();
  const copy = new DatabaseSync(join(directory, 'copy.db'), { readOnly: true });
  expect(copy.prepare('SELECT a FROM t').all()).toEqual([{ a: 1 }]);
  copy.close();
});

it('reports a copy that cannot be written', async () => {
  const db = new DatabaseSync(join(directory, 'source.db'));
  db.exec('CREATE TABLE t (a)');
  await expect(copyDatabase(db, join(directory, 'source.db', 'copy.db'))).rejects.toThrow('ENOTDIR');
  db.close();
});
