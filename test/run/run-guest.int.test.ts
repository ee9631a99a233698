import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { OpenAiBackend } from '../../src/agent/chat/backends/openai.ts';
import { BackendError, runGuest } from '../../src/index.ts';
import { compiledBackend, ProviderServer } from '../agent/chat/backends/provider-server.ts';
import { scripted } from '../support/chat-host.ts';
import { runFixture } from '../support/run-fixture.ts';
import { running } from '../support/small-modules.ts';
import { call, drop, i32Const } from '../support/wasm-encoder.ts';

const noProxy = { http: undefined, https: undefined, noProxy: '' };

describe('what a guest is given', () => {
  it('are its arguments and its environment, and nothing of the host’s [run.environment]', async () => {
    const run = await runFixture('c/test/env.wasm', { args: ['one', 'zwö'], env: { GREETING: 'grüße' } });
    expect(run.stdout).toBe('arg 0: guest\narg 1: one\narg 2: zwö\nenv: GREETING=grüße\n');
  });

  it('is its stdin, read as it asks for it', async () => {
    const text = `${'grüße 🚀 '.repeat(20_000)}\n`;
    const run = await runFixture('c/test/echo-stdin.wasm', { stdin: () => Readable.from([Buffer.from(text)]) });
    expect(run).toMatchObject({ exitCode: 0, stdout: text });
  });

  it('is an empty stdin where there is none', async () => {
    expect(await runFixture('c/test/echo-stdin.wasm')).toMatchObject({ exitCode: 0, stdout: '' });
  });

  it('is input that comes while it waits', async () => {
    const stdin = new PassThrough();
    const running = runFixture('c/test/echo-stdin.wasm', { stdin: () => stdin });
    stdin.write('first ');
    setImmediate(() => stdin.end('second'));
    expect((await running).stdout).toBe('first second');
  });
});

describe('a guest that waits', () => {
  it('in poll_oneoff and in sleep_ms comes back when the time is up', async () => {
    const run = await runFixture('c/test/sleep.wasm', { args: ['30'] });
    expect(run).toMatchObject({ exitCode: 0, stdout: 'before the sleep\nusleep ok\nsleep_ms ok\n' });
  });

  it.each(['recv', 'epoll', 'both'])('by polling without a pause (%s) gets its answer all the same', async (mode) => {
    const run = await runFixture('c/test/poll-spin.wasm', { args: [mode], backend: 'scripts/test/poll-spin.json' });
    expect(run.stdout).toContain('polled more than once\n');
    expect(run.stdout).toContain('answer: an answer without tools\n');
    expect(run.exitCode).toBe(0);
  });

  it('by polling has its callbacks run inside the poll', async () => {
    const run = await runFixture('c/test/poll-spin.wasm', { args: ['tool'], backend: 'scripts/test/poll-spin.json' });
    expect(run.stdout).toContain('tool called\n');
    expect(run.stdout).toContain('answer: the tool answered\n');
  });
});

describe('callbacks of a guest in C', () => {
  const nested = (mode: string) =>
    runFixture('c/test/nested.wasm', { args: [mode], backend: 'scripts/test/nested.json' });

  it.each([
    ['other', 'inside: an answer without tools\ndeepest 1\nanswer: the tool answered\n'],
    ['epoll', 'inside: 1 event, the response\ninside: an answer without tools\ndeepest 1\nanswer: the tool answered\n'],
    ['busy', 'write_msg on the busy session: 0\nsend on the busy session: -16\ndeepest 1\nanswer: the tool answered\n'],
    ['deep', 'depth 8: -16\ndeepest 8\nanswer: the tool answered\n'],
    ['sleep', 'inside: slept twice\ndeepest 1\nanswer: the tool answered\n'],
  ])('may make hostcalls: %s', async (mode, stdout) => {
    expect(await nested(mode)).toMatchObject({ exitCode: 0, stdout });
  });

  it('may end the guest', async () => {
    expect(await nested('exit')).toMatchObject({ reason: 'exit', exitCode: 7, stdout: 'inside: exit\n' });
  });

  it.each([
    ['ok', 1, 'the tool answered'],
    ['rc', 1, 'the tool failed'],
    ['trap', 1, 'the tool failed'],
    ['utf8', 1, 'the tool failed'],
    ['length', 1, 'the tool failed'],
    ['enospc', 2, 'the tool answered'],
    ['huge', 1, 'the tool failed'],
    ['index', 0, 'the tool failed'],
    ['signature', 0, 'the tool failed'],
  ])('that end by %s: called %i times, then %s', async (mode, calls, answer) => {
    const run = await runFixture('c/test/callback.wasm', { args: [mode], backend: 'scripts/test/probe.json' });
    expect(run.stdout).toContain(`calls ${calls}\nanswer: ${answer}\n`);
    expect(run.stdout).not.toContain('never called');
    expect(run).toMatchObject({ reason: 'exit', exitCode: 0, chat: { sends: 1, iterations: 2, toolCalls: 1 } });
  });
});

describe('a guest that is ended while a send is in flight', () => {
  it('takes its HTTP request with it', async () => {
    const provider = await ProviderServer.start(() => {}); // never answers
    const controller = new AbortController();
    const backend = new OpenAiBackend(compiledBackend(provider.baseUrl), { proxy: noProxy, timing: undefined });
    try {
      const running = runFixture('c/chat.wasm', { backend, signal: controller.signal });
      await provider.until(() => provider.requests.length === 1);
      expect(provider.openSockets).toBe(1);
      controller.abort();
      expect(await running).toMatchObject({ reason: 'interrupted' });
      await provider.until(() => provider.openSockets === 0);
    } finally {
      await provider.stop();
    }
  });
});

describe('a guest that returns while a send is in flight', () => {
  it('leaves nothing running behind it', async () => {
    const flags = '{"set":["O_NONBLOCK"]}';
    const [at, lengthAt] = [64, 128];
    const bytes = running(
      [
        ...[...call(0), ...drop], // the first descriptor is 1000
        ...[...i32Const(1000), ...i32Const(1), ...i32Const(at), ...i32Const(lengthAt), ...call(1), ...drop],
        ...[...i32Const(1000), ...i32Const(0), ...call(2)],
      ],
      (module) => {
        module.importFunction('spear', 'cchat_create', [], ['i32']);
        module.importFunction('spear', 'spear_fd_ctl', ['i32', 'i32', 'i32', 'i32'], ['i32']);
        module.importFunction('spear', 'cchat_send', ['i32', 'i32'], ['i32']);
        module.data(at, flags);
        module.data(lengthAt, Uint8Array.of(flags.length, 0, 0, 0));
      },
    );
    const backend = await scripted([{ reply: { content: 'too late' }, repeat: true }]);
    backend.hold();
    const run = await runFixture(bytes, { backend });
    expect(run).toMatchObject({ reason: 'exit', exitCode: 1001, chat: { sends: 1 } });
    expect(backend.aborted).toBe(backend.requests.length);
  });
});

describe('what goes wrong on our side', () => {
  it('is said: the file, the backend, the output', async () => {
    const broken = await runGuest({
      wasm: Promise.reject(new Error('ENOENT: no such file')),
      backend: async () => {
        throw new BackendError('unknown_backend', 'none', { retryable: false });
      },
    });
    expect(broken).toMatchObject({ reason: 'internal', message: 'ENOENT: no such file', exitCode: null });
  });
});
