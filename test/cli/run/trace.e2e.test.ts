import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { traceModel } from '../../../src/agent/chat/observed-backend.ts';
import { openTrace } from '../../../src/cli/run/trace.ts';
import { fixture, scratch, spearRun } from '../../e2e/spear-run.ts';
import { scripted } from '../../support/chat-host.ts';

const folder = mkdtempSync(join(tmpdir(), 'spear-trace-'));
afterAll(() => rmSync(folder, { recursive: true }));

const never = new AbortController().signal;
const hi = { messages: [{ role: 'user', content: 'hi' }] };
const hello = () => scripted([{ reply: { content: 'hello' }, repeat: true }]);

describe('the file of a trace', () => {
  it('is its owner’s alone, and is added to [cli.trace]', async () => {
    const file = join(folder, 'added.jsonl');
    for (const run of ['one', 'two']) {
      const trace = openTrace(file, () => {});
      await traceModel({ run, write: trace.write })(await hello()).complete(hi, never);
      trace.close();
    }
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line).run)).toEqual(['one', 'one', 'two', 'two']);
  });

  it('that is full, or has reached its bound, is said once, and answers still come [cli.trace]', async () => {
    for (const [file, maxBytes, why] of [
      ['/dev/full', undefined, 'writing failed (ENOSPC)'],
      [join(folder, 'bound.jsonl'), 200, 'the limit of 200 bytes per run is reached'],
    ] as const) {
      const said: string[] = [];
      const trace = openTrace(file, (text) => said.push(text), maxBytes);
      const backend = traceModel({ run: 'run', write: trace.write })(await hello());
      for (let count = 0; count < 3; count++) expect(await backend.complete(hi, never)).toHaveProperty('choices');
      trace.close();
      expect(said).toEqual([`--trace ${file}: stopped, ${why}`]);
    }
    expect(readFileSync(join(folder, 'bound.jsonl')).byteLength).toBeLessThanOrEqual(200);
  });
});

describe('spear-run --trace', () => {
  const script = join(scratch, 'trace-turns.json');
  writeFileSync(script, JSON.stringify({ turns: [{ reply: { content: 'An answer.' }, repeat: true }] }));
  const chat = fixture('c/chat.wasm');

  it('keeps what was said to the model and by it [cli.trace]', async () => {
    const file = join(scratch, 'trace.jsonl');
    const { code, stdout } = await spearRun([chat, '--script', script, '--trace', file, '--', 'a question']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'An answer.\n' });
    const [request, answer, ...more] = readFileSync(file, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(more).toEqual([]);
    expect(request).toMatchObject({ ordinal: 1, session: expect.stringMatching(/^chat-/), backend: 'script' });
    expect(request.request.messages.at(-1)).toMatchObject({ role: 'user', content: 'a question' });
    expect(answer.answer.choices[0].message.content).toBe('An answer.');
    expect(request.run).toBe(answer.run);
  });

  it('is refused where it cannot be written, and makes no file in a dry run [cli.trace]', async () => {
    const nowhere = join(scratch, 'nowhere', 'trace.jsonl');
    const refused = await spearRun([chat, '--script', script, '--trace', nowhere]);
    expect(refused).toMatchObject({
      code: 125,
      stderr: `spear-run: --trace ${nowhere}: cannot be written (ENOENT)\n`,
    });
    const dry = join(scratch, 'dry.jsonl');
    expect((await spearRun([chat, '--script', script, '--trace', dry, '--dry-run'])).code).toBe(0);
    expect(existsSync(dry)).toBe(false);
  });
});
