import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../src/agent/chat/backends/script-schema.ts';
import { scripted } from '../support/chat-host.ts';
import { useComponentCache } from '../support/component-cache.ts';
import { runFixture } from '../support/run-fixture.ts';

/** The first run of a component compiles it. */
const COMPILE_MS = 120_000;
const cache = useComponentCache();
const guests = [
  'c/stream.wasm',
  'c/stream.component.wasm',
  'assemblyscript/stream.wasm',
  'assemblyscript/stream.component.wasm',
  'rust/stream.wasm',
  'rust/stream.component.wasm',
  'javascript/stream.component.wasm',
];

const run = async (guest: string, turn: ScriptTurn) =>
  runFixture(guest, { backend: await scripted([turn]), componentCache: cache.directory });

describe.each(guests)('%s', { timeout: COMPILE_MS }, (guest) => {
  it('prints an answer as it comes [sdk.stream]', async () => {
    // Longer than the first buffer of an SDK: lines that do not fit are read later, none is lost.
    const content = `First ${'word '.repeat(400)}line.\nSecond "line" ä😀.`;
    const { stdout, stderr, exitCode, hostcalls } = await run(guest, { reply: { content } });
    expect({ stdout, stderr, exitCode }).toEqual({ stdout: `${content}\n`, stderr: '', exitCode: 0 });
    expect(hostcalls.cchat_read).toBeGreaterThan(0);
  });

  it('tells that there was no answer [sdk.stream]', async () => {
    const { stderr, exitCode } = await run(guest, { error: { status: 400, message: 'not today' } });
    expect(stderr).toContain('not today');
    expect(exitCode).toBe(1);
  });
});
