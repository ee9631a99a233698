import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { type ChatBackend, ConfigError, compileLimits, type RunOptions, runGuest } from '../../src/index.ts';
import { collector, fixture } from './fixtures.ts';

const answering = (name: string): ChatBackend => ({
  name,
  model: 'm',
  complete: async () => ({ choices: [{ message: { role: 'assistant', content: `it is ${name}` } }] }),
  close: async () => {},
});

async function chat(options: Partial<RunOptions> = {}) {
  const said = collector();
  const notices: string[] = [];
  const onNotice = (text: string) => void notices.push(text);
  const result = await runGuest({ wasm: fixture('c/chat.wasm'), output: said.output, onNotice, ...options });
  return { ...result, stdout: said.text(), stderr: said.text('stderr'), notices };
}

describe('runGuest', () => {
  it('takes a file, bytes or a promise of them [library.run]', async () => {
    const file = fixture('c/hello.wasm');
    for (const wasm of [file, await readFile(file), readFile(file)]) {
      const said = collector();
      expect(await runGuest({ wasm, output: said.output })).toMatchObject({ reason: 'exit', exitCode: 0 });
      expect(said.text()).toBe('hello from C\n');
    }
  });

  it('says in its result what is wrong with a module [library.run]', async () => {
    expect(await runGuest({ wasm: '/no/such.wasm' })).toMatchObject({
      reason: 'module',
      message: 'no such file',
    });
  });

  it('tells its numbers in camelCase [library.results]', async () => {
    const { durations, chat: counted, hostcalls } = await chat({ backend: answering('one') });
    expect(Object.keys(durations)).toEqual(['loadMs', 'runMs', 'totalMs']);
    expect(counted).toEqual({ sends: 1, iterations: 1, toolCalls: 0, usage: {} });
    expect(hostcalls).toMatchObject({ cchat_send: 1 });
  });
});

describe('the backend of a run', () => {
  it('is a stub where none is given, and that is said [library.backend]', async () => {
    const run = await chat();
    expect(run.stdout).toContain('[stub] no model is configured');
    expect(run.notices).toEqual(['no model is configured: a stub answers; set "backend" to use a model']);
  });

  it('is an object, or a function of the name [library.backend]', async () => {
    expect((await chat({ backend: answering('one') })).stdout).toContain('it is one');
    const asked: unknown[] = [];
    const backend = (name: string | undefined) => {
      asked.push(name);
      return answering('found');
    };
    expect((await chat({ backend })).stdout).toContain('it is found');
    expect(asked).toEqual([undefined]);
  });

  it.each([
    ['a text', 'gpt'],
    ['an object without complete', { name: 'x' }],
    ['null', null],
  ])('is refused where it is %s [library.backend]', async (_, backend) => {
    await expect(chat({ backend: backend as never })).rejects.toThrow(ConfigError);
  });
});

it('a trace has every request to the model and its answer [library.backend]', async () => {
  const lines: { run: string; request?: object; answer?: object }[] = [];
  await chat({ backend: answering('one'), run: 'traced', trace: (line) => void lines.push(JSON.parse(line)) });
  expect(lines.map(({ run, request, answer }) => [run, request !== undefined, answer !== undefined])).toEqual([
    ['traced', true, false],
    ['traced', false, true],
  ]);
});

describe('options that cannot be used are refused before anything runs', () => {
  it.each<[string, object, string]>([
    ['an unknown key', { limit: {} }, 'runGuest: unknown key "limit", did you mean "limits"?'],
    ['an unknown limit', { limits: { timeout: 5 } }, 'limits: unknown key "timeout", did you mean "timeout_ms"?'],
    [
      'a limit out of range',
      { limits: { max_fds: 0 } },
      'limits.max_fds: expected a whole number from 1 to 1000000, found 0',
    ],
    [
      'a limit that is no number',
      { limits: { max_fds: '7' } },
      'limits.max_fds: expected a whole number from 1 to 1000000, found "7"',
    ],
    ['an unknown stream', { output: { sdtout: 1 } }, 'output: unknown key "sdtout", did you mean "stdout"?'],
    [
      'a stream to nowhere',
      { output: { stdout: 'file' } },
      'output.stdout: expected a file descriptor, a Writable or a function',
    ],
  ])('%s [library.strict]', async (_, options, message) => {
    await expect(runGuest({ wasm: fixture('c/hello.wasm'), ...options })).rejects.toThrow(message);
  });

  it('undefined is what was left out [library.strict]', async () => {
    const run = await chat({ limits: undefined, args: undefined, mcp: undefined, backend: undefined });
    expect(run.reason).toBe('exit');
    expect(compileLimits({ max_fds: undefined }).max_fds).toBe(1024);
  });
});
