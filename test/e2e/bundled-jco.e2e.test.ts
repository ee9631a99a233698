import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { JCO_VERSION } from '../../src/runtime/wasm/component/component-cache.ts';
import type { TranspileAnswer, TranspileRequest } from '../../src/runtime/wasm/component/transpile.ts';
import { fromText } from '../support/component-text.ts';
import { fixture, root } from './spear-run.ts';

const GENEROUS_MS = 120_000;
const thread = { bundled: 'dist/transpile-worker.cjs', installed: 'src/runtime/wasm/component/transpile-worker.ts' };

async function ask(which: keyof typeof thread, bytes: Uint8Array): Promise<TranspileAnswer> {
  const workerData: TranspileRequest = { bytes, asyncImports: [], asyncExports: ['wasi:cli/run@0.2.0#run'] };
  const worker = new Worker(join(root, thread[which]), { workerData, env: {}, execArgv: [], stdout: true });
  try {
    const [answer] = await once(worker, 'message');
    return answer;
  } finally {
    await worker.terminate();
  }
}

it('is of the version that the cache names, and comes with its licence [package.bundled]', () => {
  const notices = readFileSync(join(root, 'dist/THIRD-PARTY.txt'), 'utf8');
  const named = [...notices.matchAll(/^@bytecodealliance\/jco-transpile (\S+), /gm)].map(([, version]) => version);
  expect(named).toEqual([JCO_VERSION]);
  expect(notices).toContain('LLVM Exceptions to the Apache 2.0 License');
});

it(
  'writes what the installed one writes [package.bundled]',
  async () => {
    for (const name of ['c/hello', 'rust/tour']) {
      const bytes = readFileSync(fixture(`${name}.component.wasm`));
      const answer = await ask('bundled', bytes);
      expect(answer.ok, name).toBe(true);
      expect(answer).toEqual(await ask('installed', bytes));
    }
  },
  GENEROUS_MS,
);

it(
  'says why it gives up [package.bundled]',
  async () => {
    const bytes = await fromText(`(component (core module $m (func (export "f") (result i32) i32.const 0))
      (core instance $i (instantiate $m)) (alias core export $i "f" (core func $f))
      (func $run (result (result)) (canon lift (core func $f))) (export "run" (func $run)) (export "THEN" (func $run)))`);
    const answer = await ask('bundled', bytes);
    expect(answer).toMatchObject({
      ok: false,
      message: expect.stringMatching(/^jco failed: failed to find component/),
    });
    expect(answer).toEqual(await ask('installed', bytes));
  },
  GENEROUS_MS,
);
