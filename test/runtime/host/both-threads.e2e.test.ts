import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, it } from 'vitest';
import { GuestThreads, runGuest, scriptedBackend } from '../../../src/index.ts';

const fixture = (path: string) => fileURLToPath(new URL(`../../../fixtures/${path}`, import.meta.url));
const threads = new GuestThreads({ threads: 1 });
const componentCache = mkdtempSync(join(tmpdir(), 'spear-both-'));
afterAll(async () => {
  await threads.close();
  rmSync(componentCache, { recursive: true });
});

/** Guests that need nothing but a model, each with the script of its model. */
const guests = [
  ...['c', 'rust', 'assemblyscript'].flatMap((folder) =>
    ['hello', 'chat', 'sum', 'epoll', 'stream'].map((name) => `${folder}/${name}.wasm`),
  ),
  'rust/sum.component.wasm',
  'assemblyscript/sum.component.wasm',
  'javascript/stream.component.wasm',
];

it.each(guests)(
  '%s says and answers the same on a thread of its own and on a shared one [threads.pass]',
  async (path) => {
    const [, name = ''] = /\/(\w+)\./.exec(path) ?? [];
    const wasm = readFileSync(fixture(path));
    const run = async (shared: boolean) => {
      const turns = [{ reply: { content: 'hello' }, repeat: true }];
      await using backend = await scriptedBackend(
        name === 'hello' ? { turns } : { file: fixture(`scripts/${name}.json`) },
      );
      const said: Record<string, string> = { stdout: '', stderr: '' };
      const { reason, exitCode, message, isolation } = await runGuest({
        wasm,
        backend,
        componentCache,
        threads: shared ? threads : null,
        limits: { turn_ms: 30_000 },
        output: (stream, bytes) => {
          said[stream] += Buffer.from(bytes).toString();
        },
      });
      return { said, reason, exitCode, message, kind: isolation.kind };
    };
    const alone = await run(false);
    expect(alone.reason).toBe('exit');
    expect(await run(true)).toEqual({ ...alone, kind: 'shared' });
  },
);
